"""Asks ptxas, and the toolkit's occupancy header, whether docs/your_card.md is right about each card.

cards_test.py NVCC       an entry, a row or a question too many or too few is an error
cards_test.py NVCC --show    prints the rows as the toolkit answers them
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/your_card.md"
YES, NO = "yes", "–"

# The columns of the page, and the targets that each speaks for.
COLUMNS = {"Ampere": ["80", "86"], "Ada": ["89"], "Hopper": ["90a"], "B200": ["100a"], "B300": ["103a"], "Thor": ["110a"],
           "RTX 50, Spark": ["120a", "121a"]}
TARGETS_12 = ["120", "120f", "120a"]  # from what runs on most chips to what runs on one
# A column of the limits is one compute capability.
CAPABILITIES = {"8.0": "80", "8.6": "86", "8.9": "89", "9.0": "90a", "10.0": "100a", "10.3": "103a", "11.0": "110a",
                "12.0": "120a", "12.1": "121a"}

LOAD = "cp.async.bulk.tensor"
TO_CLUSTER, TO_BLOCK = "shared::cluster.global", "shared::cta.global"
BYTES = "mbarrier::complete_tx::bytes"
A, B, D, D16 = "{%r1, %r2, %r3, %r4}", "{%r5, %r6}", "{%f1, %f2, %f3, %f4}", "{%r7, %r8}"
SCALES = "{%r9}, {%h1, %h1}, {%r10}, {%h1, %h1}"


def product(form, a=A, b=B, d=D, rest=""):
    return f"{form} {d}, {a}, {b}, {d}{rest};"


def sparse(form, rest=""):
    return product(f"mma.sp::ordered_metadata.sync.aligned.{form}", b=A, rest=f", %r11, 0x0{rest}")


# What a row of the page asks: instructions with operands in registers, %l1 being an address, %s and %bar two in shared memory.
QUESTIONS = {
    "`mbarrier.arrive`, `test_wait`": "mbarrier.arrive.shared.b64 %l3, [%bar]; mbarrier.test_wait.shared.b64 %p1, [%bar], %l3;",
    "`mbarrier`: announced bytes, `try_wait`":
        "mbarrier.arrive.expect_tx.shared::cta.b64 %l3, [%bar], 16; mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0;",
    "`cp.async` of 4 to 16 bytes": "cp.async.cg.shared.global [%s], [%l1], 16;",
    "`cp.async.bulk`": f"cp.async.bulk.{TO_CLUSTER}.{BYTES} [%s], [%l1], 16, [%bar];",
    "TMA, tiles: load, store, reduce":
        f"{LOAD}.2d.{TO_CLUSTER}.tile.{BYTES} [%s], [%l1, {{%r1, %r1}}], [%bar];"
        f"{LOAD}.2d.global.shared::cta.tile.bulk_group [%l1, {{%r1, %r1}}], [%s];"
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%l1, {%r1, %r1}], [%s];",
    "TMA, `im2col`": f"{LOAD}.4d.{TO_CLUSTER}.im2col.{BYTES} [%s], [%l1, {{%r1, %r1, %r1, %r1}}], [%bar], {{%h1, %h1}};",
    "TMA, `im2col::w`": f"{LOAD}.4d.{TO_BLOCK}.im2col::w.{BYTES} [%s], [%l1, {{%r1, %r1, %r1, %r1}}], [%bar], {{%h1, %h1}};",
    "TMA, `tile::gather4`, to `.shared::cta`":
        f"{LOAD}.2d.{TO_BLOCK}.tile::gather4.{BYTES} [%s], [%l1, {{%r1, %r1, %r1, %r1, %r1}}], [%bar];",
    "TMA, `tile::gather4`, to `.shared::cluster`":
        f"{LOAD}.2d.{TO_CLUSTER}.tile::gather4.{BYTES} [%s], [%l1, {{%r1, %r1, %r1, %r1, %r1}}], [%bar];",
    "TMA, `tile::scatter4`":
        f"{LOAD}.2d.global.shared::cta.tile::scatter4.bulk_group [%l1, {{%r1, %r1, %r1, %r1, %r1}}], [%s];",
    "`.multicast::cluster`":
        f"{LOAD}.2d.{TO_CLUSTER}.tile.{BYTES}.multicast::cluster [%s], [%l1, {{%r1, %r1}}], [%bar], %h1;",
    "`tensormap.replace`": "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%l1], %l2;",
    "clusters, `mapa`, memory of other blocks":
        "barrier.cluster.arrive; barrier.cluster.wait; mapa.shared::cluster.u32 %r2, %s, 1; st.shared::cluster.u32 [%r2], %r1;",
    "`st.async`": f"st.async.shared::cluster.{BYTES}.b32 [%s], %r1, [%bar];",
    "launch control": f"clusterlaunchcontrol.try_cancel.async.shared::cta.{BYTES}.b128 [%s], [%bar];"
                      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1;",
    "launch control, answered to a whole cluster":
        f"clusterlaunchcontrol.try_cancel.async.shared::cta.{BYTES}.multicast::cluster::all.b128 [%s], [%bar];",
    "`griddepcontrol` (grids that start early)": "griddepcontrol.wait; griddepcontrol.launch_dependents;",
    "`setmaxnreg`": "setmaxnreg.dec.sync.aligned.u32 24;",
    "`elect.sync`": "elect.sync %r3|%p1, -1;",
    "`mma.sync`, bf16, f16, tf32, int8":
        product("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") + product("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
        + product("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", d=A),
    "`mma.sync`, e4m3, e5m2": product("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32"),
    "the same, sums in f16": product("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16", d=D16),
    "`.kind::f8f6f4`, with e3m2, e2m3 or e2m1": product("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32"),
    "`.kind::mxf8f6f4`, a ue8m0 for 32 elements":
        product("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0",
                rest=", " + SCALES),
    "`.kind::mxf4`, a ue8m0 for 32":
        product("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
                rest=", " + SCALES),
    "`.kind::mxf4nvf4`, a ue4m3 for 16 (nvfp4)":
        product("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
                rest=", " + SCALES),
    "`mma.sp`, bf16": sparse("m16n8k32.row.col.f32.bf16.bf16.f32"),
    "`mma.sp`, `.kind::mxf8f6f4`":
        sparse("m16n8k64.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0", ", " + SCALES),
    "`mma.sp`, `.kind::mxf4nvf4`":
        sparse("m16n8k128.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", ", " + SCALES),
    "`wgmma`": f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {D}, %l1, %l2, %p1, 1, 1, 0, 0;",
    "`tcgen05`, tensor memory": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s], 32;"
                                "tcgen05.mma.cta_group::1.kind::f16 [%r1], %l2, %l3, %r2, %p1;",
    "`tcgen05`, `.kind::i8`": "tcgen05.mma.cta_group::1.kind::i8 [%r1], %l2, %l3, %r2, %p1;",
    "`cta_group::2` (pairs of blocks)": "tcgen05.mma.cta_group::2.kind::f16 [%r1], %l2, %l3, %r2, %p1;",
    "`ldmatrix`, 16 bits": f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {A}, [%s];",
    "`ldmatrix`, 8 bits, transposed": "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%s];",
    "`ldmatrix`, 6 or 4 bits into bytes": "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {%r1}, [%s];"
                                          "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%r1}, [%s];",
    "`stmatrix`, 16 bits": f"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%s], {A};",
    "`stmatrix`, 8 bits": "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%s], {%r1};",
    "`cvt` to and from e4m3, e5m2": "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; cvt.rn.f16x2.e5m2x2 %r1, %h1;",
    "`cvt` to e3m2, e2m3, e2m1, ue8m0":
        "cvt.rn.satfinite.e3m2x2.f32 %h1, %f1, %f2; cvt.rn.satfinite.e2m3x2.f32 %h1, %f1, %f2;"
        "cvt.rn.satfinite.e2m1x2.f32 %c1, %f1, %f2; cvt.rp.satfinite.ue8m0x2.f32 %h1, %f1, %f2;",
    "`cvt.rs` (stochastic rounding)": f"cvt.rs.bf16x2.f32 %r1, %f1, %f2, %r2; cvt.rs.satfinite.e4m3x4.f32 %r1, {D}, %r2;",
    "`fma.rn.f32x2` and the like": "fma.rn.f32x2 %l3, %l4, %l5, %l6;",
    "loads and stores of 32 bytes": "ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%l1];",
    "`redux.sync`, s32": "redux.sync.add.s32 %r2, %r1, -1;",
    "`redux.sync`, f32": "redux.sync.min.f32 %f1, %f2, -1;",
}

KERNEL = """.visible .entry question(.param .u64 p) {
  .reg .pred %p<9>; .reg .b8 %c<9>; .reg .b16 %h<9>; .reg .b32 %r<20>, %s, %bar;
  .reg .b64 %l<9>; .reg .f32 %f<9>; .reg .b128 %q<3>;
  .shared .align 128 .b8 place[256]; .shared .align 8 .b64 barrier;
  mov.b32 %s, place; mov.b32 %bar, barrier; ld.param.u64 %l1, [p];
"""


class Ptxas:
    def __init__(self, nvcc, folder):
        self.toolkit = pathlib.Path(nvcc).resolve().parents[1]
        self.folder = folder

    def assemble(self, target, text):
        source = self.folder / "asked.ptx"
        source.write_text(f".version 9.0\n.target sm_{target}\n.address_size 64\n{text}")
        run = subprocess.run([self.toolkit / "bin/ptxas", f"-arch=sm_{target}", "-O0", source, "-o", "/dev/null"],
                             capture_output=True, text=True)
        return run.returncode == 0, run.stdout + run.stderr

    def accepted(self, target):
        """The questions that ptxas answers with code for a target. All are asked at once, until only those are left."""
        left = dict(QUESTIONS)
        while True:
            lines, owners = [], []
            for number, (row, instructions) in enumerate(left.items()):
                kernel = KERNEL.replace("question", f"question_{number}") + instructions + "\nret;\n}"
                lines += kernel.splitlines()
                owners += [row] * len(kernel.splitlines())
            done, report = self.assemble(target, "\n".join(lines) + "\n")
            if done:
                return set(left)
            # The three lines before the first kernel are the target's.
            refused = {owners[int(line) - 4] for line, why in re.findall(r"line (\d+); error *: (.*)", report)
                       if "arget" in why}
            if not refused or "yntax" in report:
                sys.exit(f"sm_{target}: ptxas refuses a question for another reason than its target:\n{report}")
            for row in refused:
                del left[row]

    def threads_of_multiprocessor(self, target):
        """ptxas warns where a bound asks for more threads than a multiprocessor has."""
        blocks = 1
        while "out of range" not in self.assemble(
                target, f".visible .entry f() .maxntid 512,1,1 .minnctapersm {blocks} {{ ret; }}\n")[1]:
            blocks += 1
        return f"{512 * (blocks - 1)}"

    def shared_memory_of_block(self, target):
        """Static shared memory may be more than 48 KiB from 9.0 on; before, ptxas does not know what a launch may ask for."""
        text = ".visible .entry f(.param .u64 p) { .reg .b32 %r; .shared .b8 s[1000000]; mov.b32 %r, s; ret; }\n"
        limit = int(re.search(r"0x(\w+) max", self.assemble(target, text)[1])[1], 16)
        return f"{limit // 1024} KiB" if limit > 48 * 1024 else None


OCCUPANCY = r"""
#include <cuda_occupancy.h>
#include <cstdio>
#include <cstdlib>
int main(int, char** digits) {
  const int capability = std::atoi(digits[1]);
  cudaOccDeviceProp properties;
  properties.computeMajor = capability / 10;
  properties.computeMinor = capability % 10;
  int blocks = 0, kib = 512;
  cudaOccMaxBlocksPerMultiprocessor(&blocks, &properties);
  for (;; --kib) {
    size_t bytes = kib * size_t{1024};
    if (cudaOccAlignUpShmemSizeVoltaPlus(&bytes, &properties) == CUDA_OCC_SUCCESS) break;
  }
  std::printf("%d,%d KiB\n", blocks, kib);
}
"""


def occupancy(ptxas):
    """For each capability: the blocks of a multiprocessor, and its shared memory."""
    source, program = ptxas.folder / "occupancy.cpp", ptxas.folder / "occupancy"
    source.write_text(OCCUPANCY)
    subprocess.run(["g++", "-w", "-I", ptxas.toolkit / "include", source, "-o", program], check=True)
    return {name: subprocess.run([program, name.replace(".", "")], check=True, capture_output=True, text=True)
            .stdout.strip().split(",") for name in CAPABILITIES}


def instruction_rows(ptxas):
    """For each question: what the page's columns must say, and the least target of 12.x."""
    accepted = {target: ptxas.accepted(target) for target in sum(COLUMNS.values(), []) + TARGETS_12[:2]}
    rows = {}
    for row in QUESTIONS:
        rows[row] = []
        for column, targets in COLUMNS.items():
            answers = {row in accepted[target] for target in targets}
            rows[row].append("differs" if len(answers) > 1 else YES if answers == {True} else NO)
        rows[row].append(next((f"`{target}`" for target in TARGETS_12 if row in accepted[target]), ""))
    return rows


def limit_rows(ptxas):
    counted = occupancy(ptxas)
    return {
        "threads of a multiprocessor": [ptxas.threads_of_multiprocessor(target) for target in CAPABILITIES.values()],
        "blocks of a multiprocessor": [counted[name][0] for name in CAPABILITIES],
        "shared memory of a multiprocessor": [counted[name][1] for name in CAPABILITIES],
        "shared memory of a block": [ptxas.shared_memory_of_block(target) for target in CAPABILITIES.values()],
    }


def tables(columns):
    """The rows of all tables of the page whose columns have these names: the first cell, and as many others."""
    rows, inside = {}, False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if cells[1:len(columns) + 1] == columns:
            inside = True
        elif not cells:
            inside = False
        elif inside and not set(cells[0]) <= {"-"} | set():
            rows[cells[0]] = cells[1:len(columns) + 1]
    return rows


def main():
    with tempfile.TemporaryDirectory() as folder:
        ptxas = Ptxas(sys.argv[1], pathlib.Path(folder))
        answers = {tuple([*COLUMNS, "12.x needs"]): instruction_rows(ptxas), tuple(CAPABILITIES): limit_rows(ptxas)}
    wrong = []
    for columns, rows in answers.items():
        page = tables(list(columns))
        if "--show" in sys.argv:
            for row, cells in rows.items():
                print("|", row, "|", " | ".join(cell or "" for cell in cells), "|")
        wrong += [f"{row}: is not on the page" for row in rows if row not in page]
        # Other limits than those of the toolkit are from the programming guide.
        wrong += [f"{row}: nothing is asked" for row in page if row not in rows and columns[0] == "Ampere"]
        for row in rows.keys() & page.keys():
            wrong += [f"{row}, {column}: the page says {said!r}, the toolkit {answer!r}"
                      for column, said, answer in zip(columns, page[row], rows[row]) if answer is not None and said != answer]
    if "--show" not in sys.argv:
        print("\n".join(wrong) or f"{len(QUESTIONS)} rows of instructions are as ptxas says")
        sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
