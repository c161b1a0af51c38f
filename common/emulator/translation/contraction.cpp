#include "emulator/translation/contraction.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace stagecraft::emulator::machine {

namespace {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

/// The modifiers of a product or a sum that may be contracted: `.ftz`, `.sat` and a type, nothing else.
struct Shape {
  bool flush = false, saturate = false;
  std::string_view type;
};

/// An empty type for an instruction that may not be contracted.
Shape shape_of(const Instruction& instruction) {
  Shape shape;
  for (const std::string& modifier : instruction.modifiers) {
    const bool is_type = modifier == "f32" || modifier == "f64" || modifier == "f16" || modifier == "f16x2" ||
                         modifier == "bf16" || modifier == "bf16x2";
    if (modifier == "ftz") {
      shape.flush = true;
    } else if (modifier == "sat") {
      shape.saturate = true;
    } else if (is_type && shape.type.empty()) {
      shape.type = modifier;
    } else {
      return {};
    }
  }
  if (instruction.operands.size() != 3 || instruction.operands[0].kind != OperandKind::reg) return {};
  return shape;
}

struct Use {
  uint32_t sum;
  uint32_t operand;  ///< of the sum: 1 or 2
};
struct Product {
  uint32_t index = 0;
  Shape shape;
  std::vector<Use> uses;
};

class Finder {
 public:
  Finder(const ptx::Function& function, std::span<const InstructionTraits> traits)
      : function_(function), body_(function.body), traits_(traits) {}

  Contractions find() {
    count();
    gather();
    // Sums take products that no other sum uses, the first operand before the second.
    for (uint32_t sum = 0; sum < body_.size(); ++sum) {
      for (Product* product : {candidate(sum, 1), candidate(sum, 2)}) {
        if (product == nullptr || product->uses.size() != 1 || result_.operations.contains(sum)) continue;
        contract(*product);
      }
    }
    // Then products of several sums, if none of these sums has taken another.
    for (Product& product : products_) {
      if (product.uses.size() < 2) continue;
      const bool free = std::none_of(product.uses.begin(), product.uses.end(),
                                     [&](const Use& use) { return result_.operations.contains(use.sum); });
      if (free) contract(product);
    }
    return std::move(result_);
  }

 private:
  /// Counts how often each register is named, and finds where blocks begin.
  void count() {
    named_.assign(function_.registers.size(), 0);
    begins_.assign(body_.size() + 1, false);
    for (const auto& table : function_.branch_tables) {
      for (const uint32_t target : table.targets) begins_.at(target) = true;
    }
    for (const auto& [name, target] : function_.labels) begins_.at(target) = true;
    for (uint32_t i = 0; i < body_.size(); ++i) {
      const Instruction& instruction = body_[i];
      if (instruction.guarded) ++named_.at(instruction.guard);
      for (const Operand& operand : instruction.operands) {
        ptx::visit_registers(operand, [&](ptx::RegisterId reg) { ++named_.at(reg); });
        if (operand.kind == OperandKind::label) begins_.at(operand.label) = true;
      }
      if (traits_[i].flow == Flow::leaves || traits_[i].flow == Flow::calls) begins_[i + 1] = true;
    }
  }

  /// Finds the products that only sums of their own blocks name.
  void gather() {
    // For each register, the product that it holds in the current block: its number in `open` plus 1.
    std::vector<uint32_t> product_of(function_.registers.size(), 0);
    std::vector<Product> open;
    std::vector<uint32_t> written(function_.registers.size(), 0);
    uint32_t parted = 0;  // where the block was last parted
    const auto close = [&] {
      for (Product& product : open) {
        const ptx::RegisterId reg = body_[product.index].operands[0].reg;
        product_of[reg] = 0;
        if (!product.uses.empty() && named_[reg] == product.uses.size() + 1) products_.push_back(std::move(product));
      }
      open.clear();
    };
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (begins_[i]) close();
      const Instruction& instruction = body_[i];
      if (traits_[i].computes == Computation::sum || traits_[i].computes == Computation::difference) {
        const Shape shape = shape_of(instruction);
        for (uint32_t operand = 1; operand <= 2 && !shape.type.empty(); ++operand) {
          const Operand& source = instruction.operands[operand];
          if (source.kind != OperandKind::reg || product_of[source.reg] == 0) continue;
          Product& product = open[product_of[source.reg] - 1];
          const bool same = product.shape.type == shape.type && product.shape.flush == shape.flush;
          // ptxas was seen to keep one product rather than two factors across such a place.
          const Instruction& multiply = body_[product.index];
          const bool together = parted <= product.index || multiply.operands[1].kind != OperandKind::reg ||
                                multiply.operands[2].kind != OperandKind::reg;
          if (same && together && still_there(product, written)) product.uses.push_back({i, operand});
        }
      }
      if (traits_[i].flow == Flow::branches) parted = i;
      if (!instruction.operands.empty()) {
        ptx::visit_registers(instruction.operands[0], [&](ptx::RegisterId reg) { written[reg] = i + 1; });
      }
      if (traits_[i].computes == Computation::product && !instruction.guarded) {
        const Shape shape = shape_of(instruction);
        if (shape.type.empty() || shape.saturate) continue;
        open.push_back({i, shape, {}});
        product_of[instruction.operands[0].reg] = static_cast<uint32_t>(open.size());
      }
    }
    close();
    // A sum of a product with itself stays one.
    std::erase_if(products_, [](const Product& product) {
      return std::adjacent_find(product.uses.begin(), product.uses.end(),
                                [](const Use& a, const Use& b) { return a.sum == b.sum; }) != product.uses.end();
    });
    for (size_t i = 0; i < products_.size(); ++i) {
      for (const Use& use : products_[i].uses) used_by_[use.sum][use.operand - 1] = i + 1;
    }
  }

  /// Whether nothing since the product has written to its factors. `written` has for each register the number of
  /// the last instruction that wrote it, plus 1.
  bool still_there(const Product& product, const std::vector<uint32_t>& written) const {
    const Instruction& multiply = body_[product.index];
    const auto is_there = [&](const Operand& factor) {
      return factor.kind != OperandKind::reg || written[factor.reg] <= product.index + 1;
    };
    return is_there(multiply.operands[1]) && is_there(multiply.operands[2]);
  }

  Product* candidate(uint32_t sum, uint32_t operand) {
    const auto found = used_by_.find(sum);
    if (found == used_by_.end() || found->second[operand - 1] == 0) return nullptr;
    return &products_[found->second[operand - 1] - 1];
  }

  void contract(const Product& product) {
    const Instruction& multiply = body_[product.index];
    for (const Use& use : product.uses) {
      const Instruction& sum = body_[use.sum];
      Instruction fused = sum;
      fused.opcode = "fma";
      fused.modifiers.insert(fused.modifiers.begin(), "rn");
      fused.operands = {sum.operands[0], multiply.operands[1], multiply.operands[2], sum.operands[3 - use.operand]};
      auto& operations = result_.operations[use.sum];
      if (traits_[use.sum].computes == Computation::difference) {
        // a * b - c and c - a * b: the register of the product, which nothing else needs, holds -c or -a.
        Operand& negated = fused.operands[use.operand == 1 ? 3 : 1];
        Instruction negate = multiply;
        negate.opcode = "neg";
        negate.operands = {multiply.operands[0], negated};
        negate.source = sum.source;
        negated = multiply.operands[0];
        operations.push_back(std::move(negate));
      }
      operations.push_back(std::move(fused));
    }
    result_.products.insert(product.index);
  }

  const ptx::Function& function_;
  const std::vector<Instruction>& body_;
  const std::span<const InstructionTraits> traits_;
  std::vector<uint32_t> named_;
  std::vector<bool> begins_;
  std::vector<Product> products_;
  std::unordered_map<uint32_t, std::array<size_t, 2>>
      used_by_;  ///< for the operands of a sum: number of the product, plus 1
  Contractions result_;
};

}  // namespace

Contractions find_contractions(const ptx::Function& function, std::span<const InstructionTraits> traits) {
  return Finder(function, traits).find();
}

}  // namespace stagecraft::emulator::machine
