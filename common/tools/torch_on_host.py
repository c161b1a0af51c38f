#!/usr/bin/env python3
"""Runs a Python program on the emulated GPU in which PyTorch computes on the host.

usage: ./stagecraft run python3 common/tools/torch_on_host.py PROGRAM.py [ARGUMENTS]
       ./stagecraft run python3 common/tools/torch_on_host.py -m MODULE [ARGUMENTS]

PyTorch's own kernels are machine code in its wheel, which the emulated GPU cannot run; it can run what Triton compiles.
Here tensors stay on the device "cuda", and an operation of PyTorch on them (torch.rand, +, @, softmax, ...) copies its
operands to the host, computes there and copies the result back. So a program that calls kernels of Triton and compares
with PyTorch needs no change. Allocations and views are the device's own, and operators of other libraries
(torch.library.custom_op, TORCH_LIBRARY_IMPL for CUDA) are called with tensors of the device. Triton times a configuration
of a kernel by one run instead of a tenth of a second of them, between which it would clear a cache that is not there.

A program can also do this itself: `with HostOperations(): ...`. Needs PyTorch with CUDA 13.
"""

import importlib.util
import runpy
import sys
from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

aten = torch.ops.aten

# These touch no elements. Views, which do not either, are known by what their schema says about aliases.
_ALLOCATIONS = {
    aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.new_empty_strided, aten._unsafe_view,
    aten._reshape_alias, aten.set_, aten.resize_, aten.record_stream, aten.is_pinned,
}


def _on_device(value: object) -> bool:
    """Whether the value is a tensor on the GPU, or the GPU itself as an argument `device`."""
    if isinstance(value, torch.Tensor):
        return value.is_cuda
    return isinstance(value, torch.device) and value.type == "cuda"


def _is_pytorch_own(operation: torch._ops.OpOverload) -> bool:
    return operation.namespace in ("aten", "prims")


def _touches_elements(operation: torch._ops.OpOverload) -> bool:
    if operation.overloadpacket in _ALLOCATIONS:
        return False
    aliases = [result.alias_info for result in operation._schema.returns]
    return not any(alias is not None and not alias.is_write for alias in aliases)


def _written_tensors(operation: torch._ops.OpOverload, args: tuple, kwargs: dict) -> Iterator[torch.Tensor]:
    """The tensors that the operation changes in place."""
    for index, parameter in enumerate(operation._schema.arguments):
        if parameter.alias_info is None or not parameter.alias_info.is_write:
            continue
        value = args[index] if index < len(args) and not parameter.kwarg_only else kwargs.get(parameter.name)
        yield from (leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor))


class _Copies:
    """Copies of tensors on the other side, as views of copied storages: strides and aliases stay as they are."""

    def __init__(self) -> None:
        self._storages: dict[tuple[str, int], torch.UntypedStorage] = {}
        self._originals: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def copy(self, tensor: torch.Tensor, device: str) -> torch.Tensor:
        """A tensor on `device`, "cpu" or "cuda", with the same elements; the same storage gives the same storage."""
        storage = tensor.untyped_storage()
        key = (storage.device.type, storage._cdata)
        if key not in self._storages:
            self._storages[key] = storage.cpu() if device == "cpu" else storage.cuda()
        made = torch.empty(0, dtype=tensor.dtype, device=device)
        made.set_(self._storages[key], tensor.storage_offset(), tensor.size(), tensor.stride())
        if tensor.is_conj():
            made = made.conj()
        if tensor.is_neg():
            made = torch._neg_view(made)
        self._originals[id(made)] = (made, tensor)
        return made

    def original(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The tensor whose copy this is, or None."""
        return self._originals.get(id(tensor), (None, None))[1]

    def write_back(self, tensor: torch.Tensor) -> None:
        """Copies a tensor's storage on the host back to the device."""
        storage = tensor.untyped_storage()
        storage.copy_(self._storages[(storage.device.type, storage._cdata)])


class HostOperations(TorchDispatchMode):
    """While it is entered, PyTorch's operations on tensors of the GPU are computed on the host."""

    def __enter__(self):
        # Printing a tensor computes with it, and leaves every mode for that.
        text_of_tensor = self._text_of_tensor = torch._tensor_str._str

        def text_of_copy(tensor, *, tensor_contents=None):
            if tensor_contents is None and tensor.is_cuda:
                host = _Copies().copy(tensor.detach(), "cpu")
                tensor_contents = torch._tensor_str._tensor_str(host, len("tensor("))
            return text_of_tensor(tensor, tensor_contents=tensor_contents)

        torch._tensor_str._str = text_of_copy
        return super().__enter__()

    def __exit__(self, *error):
        torch._tensor_str._str = self._text_of_tensor
        return super().__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        is_on_device = any(map(_on_device, tree_flatten((args, kwargs))[0]))
        if is_on_device and not _is_pytorch_own(func):
            # Its kernel for the device is called at once, so that what this does with PyTorch comes back here.
            with self:
                return func.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA), *args, **kwargs)
        if not is_on_device or not _touches_elements(func):
            return func(*args, **kwargs)
        copies = _Copies()

        def to_host(value):
            if isinstance(value, torch.Tensor) and value.is_cuda:
                return copies.copy(value, "cpu")
            if isinstance(value, torch.Generator) and value.device.type == "cuda":
                return None
            return torch.device("cpu") if _on_device(value) else value

        # Where the operation names no device, its result is where its operands are.
        to_device = kwargs.get("device") is None or _on_device(torch.device(kwargs["device"]))

        def to_result(value):
            if not isinstance(value, torch.Tensor):
                return value
            if (original := copies.original(value)) is not None:
                return original
            if any(value is operand for operand in tree_flatten((args, kwargs))[0]):
                return value   # it is on the host, and was written there
            return copies.copy(value, "cuda") if to_device else value

        host_kwargs = {name: tree_map(to_host, value) for name, value in kwargs.items() if name != "pin_memory"}
        result = func(*tree_map(to_host, args), **host_kwargs)
        for tensor in _written_tensors(func, args, kwargs):
            if tensor.is_cuda:
                copies.write_back(tensor)
        return tree_map(to_result, result)


def _time_once(function, *_, quantiles=None, return_mode="mean", **__):
    """Does the work of `triton.testing.do_bench`: the time of one call in ms, in the form that it promises."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    function()
    end.record()
    end.synchronize()
    time = start.elapsed_time(end)
    if quantiles is None:
        return [time] if return_mode == "all" else time
    return [time] * len(quantiles) if len(quantiles) > 1 else time


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("--help", "-h") or sys.argv[1:] == ["-m"]:
        print(__doc__.strip())
        sys.exit(0 if sys.argv[1:2] in (["--help"], ["-h"]) else 2)
    del sys.argv[0]
    if importlib.util.find_spec("triton") is not None:
        import triton.testing   # only here: a program without Triton needs none
        triton.testing.do_bench = _time_once
    with HostOperations():
        if sys.argv[0] == "-m":
            del sys.argv[0]
            sys.path.insert(0, "")
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
