# SPDX-License-Identifier: Apache-2.0
"""What is changed in the Verilog that Yosys writes, so that every tool reads it well."""

import re

from opendpu_hw.double_rate import DOUBLED_CLOCK

_BLOCK = re.compile(
    r"^  initial begin\n((?:    \S+ ?\[\d+\] = \d+'[bhd][0-9a-fA-F]+;\n)+)  end\n", re.M)
_SELECT = re.compile(r"^( +\d+'b\?*1)(\?+):$", re.M)
_PARALLEL = re.compile(r"^( +)(casez \(.*\)) // synopsys parallel_case$", re.M)
_REPEATED = re.compile(r"(?<=[{,] )((?:\\\S+ |\w+)(?:\[\d+\])?)(?:, \1){2,}(?=[, ])")
_PORT = re.compile(r"^  (input|output) (?:\[\d+:0\] )?(\w+) ?;$", re.M)
_MODULE = re.compile(r"^module .*?^endmodule\n", re.M | re.S)
_NET = r"(?:\\\S+ |\w+)"
_DECLARED = re.compile(rf"^  (?:(?:input|output|reg|wire) )+(?:\[(\d+):0\] )?({_NET})", re.M)
_VALUE = rf"(?:{_NET}(?: ?\[\d+(?::\d+)?\])?|\d+'h[0-9a-f]+|\{{ [^{{}}]+\}})"
_BINARY = re.compile(
    rf"^  assign ({_VALUE}) = ({_VALUE}) (==|!=|<=|>=|<|>|\+|-) ({_VALUE})( \? .*)?;$", re.M)
_NOT_ANY = re.compile(rf"(?<= = )! ({_VALUE});$", re.M)
_REGISTER = re.compile(
    rf"^(  (?:output )?reg (?:signed )?(?:\[\d+:0\] )?)({_NET})( = \d+'[bhd][0-9a-f]+);$", re.M)
_WORD = re.compile(r"^    (\S+ ?)\[(\d+)\] = (\d+)'([bhd])([0-9a-fA-F]+);$", re.M)


def fill_memories(text):
    """Write the zeros of initial blocks as loops.

    Yosys gives every word of a memory a line; a C++ compiler then needs minutes for what a loop
    says in three. Words that are not zero keep their line, after the loop. A block that does
    not set words 0, 1, 2 … of one memory is left alone.
    """
    count = 0

    def rewrite(block):
        nonlocal count
        words = _WORD.findall(block[1])
        names = {name for name, *_ in words}
        if len(names) != 1 or [int(at) for _, at, *_ in words] != list(range(len(words))):
            return block[0]
        rest = [
            f"    {name}[{at}] = {width}'{base}{digits};\n"
            for name, at, width, base, digits in words if digits.strip("0")]
        if 2 * len(rest) > len(words) or len(words) < 4:
            return block[0]
        name, _, width, *_ = words[0]
        count += 1
        return (
            f"  initial begin : opendpu_fill_{count}\n"
            "    integer i;\n"
            f"    for (i = 0; i < {len(words)}; i = i + 1)\n"
            f"      {name}[i] = {{{width}{{1'b0}}}};\n"
            f"{''.join(rest)}  end\n")

    return _BLOCK.sub(rewrite, text)


def order_selections(text):
    """Make the cases of one-hot selections exclude each other; the first that matches still wins.

    Yosys asks for one bit a case and leaves the others open, which every linter calls an overlap.
    """
    return _SELECT.sub(lambda case: f"{case[1]}{'0' * len(case[2])}:", text)


def mark_selections(text):
    """Say by Verilog's attribute that cases exclude each other; Yosys writes a comment."""
    return _PARALLEL.sub(r"\1(* parallel_case *)\n\1\2", text)


def replicate(text):
    """Write what a concatenation has three or more times in a row, as signs are, with its count."""

    def counted(run):
        return f"{{{(len(run[0]) + 2) // (len(run[1]) + 2)}{{{run[1]}}}}}"

    return _REPEATED.sub(counted, text)


def widen_operands(text):
    """Write operands of sums and comparisons in the width that Verilog gives them.

    Yosys trims operands to the bits that they need, which linters call a mismatch. Signed ones are
    left alone. What a comparison with a parameter at the end of its range gives is written instead
    of it.
    """

    def of_module(module):
        widths = {name.strip(): int(msb or 0) + 1 for msb, name in _DECLARED.findall(module[0])}

        def widened(found):
            result, left, operator, right, choice = found.groups()
            bits = [_width(value, widths) for value in (left, right)]
            if operator in "+-":
                bits.append(_width(result, widths))
            if None in bits:
                return found[0]
            left, right = (_extended(value, n, max(bits))
                           for value, n in zip((left, right), bits, strict=False))
            known = _always(operator, right)
            if known is not None and not choice:
                return f"  assign {result} = 1'h{known:d};"
            return f"  assign {result} = {left} {operator} {right}{choice or ''};"

        return _BINARY.sub(widened, module[0])

    return _MODULE.sub(of_module, text)


def _width(value, widths):
    """Return the bits of a constant, a net, a part of it, or of those joined; None if not known."""
    if value.startswith("{"):
        bits = [_width(part, widths) for part in value[2:-1].rstrip().split(", ")]
        return None if None in bits else sum(bits)
    constant = re.match(r"(\d+)'h", value)
    if constant:
        return int(constant[1])
    part = re.fullmatch(rf"({_NET}?) ?\[(\d+)(?::(\d+))?\]", value)
    if part:
        return int(part[2]) - int(part[3] or part[2]) + 1
    return widths.get(value.strip())


def _always(operator, right):
    """Return what a comparison with a constant at the end of its range always is, else None."""
    constant = re.match(r"(\d+)'h([0-9a-f]+)", right)
    if not constant:
        return None
    value, most = int(constant[2], 16), (1 << int(constant[1])) - 1
    return {(">=", 0): True, ("<", 0): False, ("<=", most): True, (">", most): False}.get(
        (operator, value))


def _extended(value, bits, wanted):
    """Return an unsigned value of more bits."""
    if bits == wanted:
        return value
    constant = re.match(r"\d+'h([0-9a-f]+)", value)
    if constant:
        return f"{wanted}'h{constant[1]}"
    return f"{{ {wanted - bits}'h0, {value} }}"


def plain_registers(text):
    """Give registers their initial value by a statement of its own, and reduce before negation.

    A declaration with a value that is assigned later is a warning, and so is the logical negation
    of several bits.
    """
    text = _REGISTER.sub(r"\1\2;\n  initial \2\3;", text)
    return _NOT_ANY.sub(r"~| \1;", text)


def name_interfaces(text, top):
    """Mark clock, reset, interrupt and AXI ports of module ``top`` for Vivado's IP integrator."""
    start = text.index(f"module {top}(")
    end = text.index("endmodule", start)
    names = [port for _, port in _PORT.findall(text[start:end])]
    buses = sorted({"_".join(name.split("_")[:3]) for name in names if "_axi_" in name})
    single = {
        "aclk": "xilinx.com:signal:clock:1.0 aclk CLK",
        DOUBLED_CLOCK: f"xilinx.com:signal:clock:1.0 {DOUBLED_CLOCK} CLK",
        "aresetn": "xilinx.com:signal:reset:1.0 aresetn RST",
        "interrupt": "xilinx.com:signal:interrupt:1.0 interrupt INTERRUPT"}
    parameter = {
        "aclk": f"XIL_INTERFACENAME aclk, ASSOCIATED_BUSIF {':'.join(buses)}, "
                "ASSOCIATED_RESET aresetn",
        "aresetn": "XIL_INTERFACENAME aresetn, POLARITY ACTIVE_LOW",
        "interrupt": "XIL_INTERFACENAME interrupt, SENSITIVITY LEVEL_HIGH"}

    def marked(declaration):
        port = declaration[2]
        bus = next((bus for bus in buses if port.startswith(f"{bus}_")), None)
        if bus:
            kind = "xilinx.com:interface:aximm:1.0"
            info = f"{kind} {bus} {port.removeprefix(f'{bus}_').upper()}"
        elif port in single:
            info = single[port]
        else:
            return declaration[0]
        lines = f'  (* X_INTERFACE_INFO = "{info}" *)\n'
        if port in parameter:
            lines += f'  (* X_INTERFACE_PARAMETER = "{parameter[port]}" *)\n'
        return lines + declaration[0]

    ports = _PORT.sub(marked, text[start:end])
    return text[:start] + ports + text[end:]
