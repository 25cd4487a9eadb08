# SPDX-License-Identifier: Apache-2.0
"""The DPU without its pins: control, engines and banks of one target."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from opendpu_arch.extensions import Extension
from opendpu_arch.isa import Engine
from opendpu_hw.bus.axi4 import read_signature, write_signature
from opendpu_hw.bus.axi_lite import AxiLiteSignature
from opendpu_hw.control.decode import Decode
from opendpu_hw.control.dispatch import Dispatch
from opendpu_hw.control.fetch import Fetch
from opendpu_hw.control.registers import ADDR_WIDTH, Registers
from opendpu_hw.control.sequencer import Sequencer
from opendpu_hw.datapath.double_cascades import weights_late
from opendpu_hw.engine.conv import Conv
from opendpu_hw.engine.load import Load
from opendpu_hw.engine.misc import MiscEngine
from opendpu_hw.engine.save import Save
from opendpu_hw.memory.banks import Banks

#: For whoever watches the DPU: instructions that left their queue and that gave their tokens, by
#: :class:`opendpu_arch.isa.Engine`, and whether a program runs.
events_shape = data.StructLayout({"started": 4, "finished": 4, "running": 1})


class Core(wiring.Component):
    """One DPU core.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        What to build.
    vendor, leaky_blocks : :class:`str` or None, :class:`bool`, :class:`int` or None
        See :class:`opendpu_hw.engine.conv.Conv`; DSP blocks are spared where there is no
        ``window``, which takes most of those outside of the array.
    ultra_ram : :class:`int`
        See :class:`opendpu_hw.memory.banks.Banks`.
    dsp_double_rate : :class:`bool`
        For ``xilinx``: whether DSP blocks have a clock of their own, ``dpu_2x_clk``, which is
        twice as fast; see :func:`opendpu_hw.double_rate.check`.
    options : keyword arguments
        Passed on to :class:`opendpu_hw.engine.misc.MiscEngine`.

    Members
    -------
    control : ``In(AxiLiteSignature)``
        Registers.
    instr : ``Out(read_signature(32))``
        Instruction port.
    load0, load1, save0, save1 : ``Out``
        Read and write halves of the data ports, 128 bit.
    interrupt : ``Out(1)``
    events : ``Out(events_shape)``
        What happened in the cycle before.
    """

    def __init__(self, target, *, vendor=None, leaky_blocks=None, ultra_ram=0,
                 dsp_double_rate=False, **options):
        self._target, self._vendor, self._options = target, vendor, options
        self._leaky_blocks, self._ultra_ram = leaky_blocks, ultra_ram
        self._double_rate = dsp_double_rate
        super().__init__({
            "control": In(AxiLiteSignature(addr_width=ADDR_WIDTH)),
            "instr": Out(read_signature(32)),
            "load0": Out(read_signature(128)), "load1": Out(read_signature(128)),
            "save0": Out(write_signature(128)), "save1": Out(write_signature(128)),
            "interrupt": Out(1), "events": Out(events_shape),
        })

    def elaborate(self, platform):
        m = Module()
        target = self._target
        m.submodules.registers = Registers(target)
        m.submodules.fetch = Fetch()
        m.submodules.decode = Decode(target)
        m.submodules.dispatch = Dispatch()
        m.submodules.sequencer = Sequencer()
        m.submodules.banks = Banks(
            target, ultra_ram=self._ultra_ram, vendor=self._vendor,
            weights_late=weights_late(target) if self._double_rate else 0)
        m.submodules.load = load = Load(target)
        m.submodules.save = save = Save(target)
        m.submodules.conv = conv = Conv(
            target, vendor=self._vendor, double_rate=self._double_rate,
            leaky_blocks=self._leaky_blocks, sparing=not self._options.get("window", True))
        m.submodules.misc = misc = MiscEngine(
            target, vendor=self._vendor, double_rate=self._double_rate, **self._options)
        engines = {Engine.LOAD: load, Engine.SAVE: save, Engine.CONV: conv, Engine.MISC: misc}
        self._connect_control(m, engines)
        self._connect_engines(m, engines)
        self._connect_memory(m, load, save, conv, misc)
        return m

    def _connect_control(self, m, engines):
        """Connect registers, sequencer, fetch, decode and dispatch with each other."""
        registers, fetch, decode = m.submodules.registers, m.submodules.fetch, m.submodules.decode
        dispatch, sequencer = m.submodules.dispatch, m.submodules.sequencer
        connect(m, flipped(self.control), registers.bus)
        connect(m, flipped(self.instr), fetch.bus)
        connect(m, fetch.words, decode.words)
        m.d.comb += [
            self.interrupt.eq(registers.interrupt),
            sequencer.start.eq(registers.start),
            registers.running.eq(sequencer.running),
            registers.finished.eq(sequencer.done),
            registers.status.eq(sequencer.status),
            registers.fault_instruction.eq(sequencer.fault_instruction),
            registers.fault_addr.eq(sequencer.fault_addr),
            registers.tokens.eq(dispatch.tokens),
            registers.active_conv.eq(engines[Engine.CONV].active),
            registers.active_misc.eq(engines[Engine.MISC].active),
            fetch.start.eq(sequencer.begin), fetch.addr.eq(registers.instr_addr),
            fetch.stop.eq(sequencer.stop_fetch),
            decode.start.eq(sequencer.begin), decode.stop.eq(sequencer.abort),
            dispatch.clear.eq(sequencer.abort),
            sequencer.decode_fault.eq(decode.fault),
            sequencer.ended.eq(decode.ended), sequencer.blocked.eq(decode.blocked),
            sequencer.empty.eq(dispatch.empty), sequencer.stuck.eq(dispatch.stuck),
            sequencer.tokens.eq(dispatch.tokens),
            sequencer.quiet.eq(fetch.idle & Cat(e.idle for e in engines.values()).all()),
        ]

    def _connect_engines(self, m, engines):
        """Connect the engines with control, and count what they do."""
        registers, decode = m.submodules.registers, m.submodules.decode
        dispatch, sequencer = m.submodules.dispatch, m.submodules.sequencer
        for e, engine in engines.items():
            connect(m, decode.out[e], dispatch.i[e])
            connect(m, dispatch.o[e], engine.insn)
            m.d.comb += [
                dispatch.done[e].eq(engine.done), engine.abort.eq(sequencer.abort),
                registers.busy[e].eq(engine.busy),
                registers.started[e].eq(dispatch.started[e]),
                registers.ended[e].eq(dispatch.finished[e]),
            ]
            m.d.sync += [
                self.events.started[e].eq(dispatch.started[e]),
                self.events.finished[e].eq(dispatch.finished[e]),
            ]
        for i, e in enumerate(sequencer.FAULTING):
            m.d.comb += [
                sequencer.engine_faults[i].eq(engines[e].fault),
                sequencer.finished[i].eq(dispatch.finished[e]),
            ]
        m.d.sync += self.events.running.eq(sequencer.running)
        m.d.comb += [engines[e].segments.eq(registers.segments) for e in (Engine.LOAD, Engine.SAVE)]

    def _connect_memory(self, m, load, save, conv, misc):
        """Connect the engines with their buses and with the banks."""
        extensions, banks = self._target.extensions, m.submodules.banks
        connect(m, flipped(self.load0), load.bus0)
        connect(m, flipped(self.load1), load.bus1)
        connect(m, flipped(self.save0), save.bus0)
        connect(m, flipped(self.save1), save.bus1)
        connect(m, load.write0, banks.load0)
        connect(m, load.write1, banks.load1)
        connect(m, save.read0, banks.save0)
        connect(m, save.read1, banks.save1)
        connect(m, conv.read, banks.conv_read)
        connect(m, conv.write, banks.conv_write)
        connect(m, conv.bias, banks.conv_bias)
        connect(m, misc.read, banks.misc_read)
        connect(m, misc.write, banks.misc_write)
        connect(m, misc.weights, banks.misc_weights)
        connect(m, misc.bias, banks.misc_bias)
        if Extension.TABLE in extensions:
            connect(m, banks.tables, conv.tables)
            connect(m, banks.tables, misc.tables)
        if Extension.SCALED in extensions:
            connect(m, banks.records, conv.records)
            connect(m, banks.records, misc.records)
            connect(m, banks.terms, misc.terms)
