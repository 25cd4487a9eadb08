# SPDX-License-Identifier: Apache-2.0
"""The Vivado side of a Zynq board: a script from IP to overlay, and its constraints."""

from opendpu_hw.boards import device_tree, ipxact
from opendpu_hw.boards.catalog import ZynqBoard
from opendpu_hw.double_rate import DOUBLED_CLOCK

DESIGN = "opendpu"
"""Name of the block design, and so of the overlay's files."""

#: Masters of the DPU -> port of the processing system, number of that port in its parameters.
PORTS = {
    "m_axi_data0": ("HP0", 2), "m_axi_data1": ("HP1", 3), "m_axi_instr": ("HP2", 4),
}
_MEMORY_BITS = 128
_LOW_BYTES = 2 << 30

_SCRIPT = """\
# SPDX-License-Identifier: Apache-2.0
# {title}: processing system, DPU, and what connects them; writes {design}.bit and {design}.hwh.
#
#   vivado -mode batch -source vivado.tcl
#
# Nobody has run this script in Vivado yet.

set here [file dirname [file normalize [info script]]]
set jobs 4

# Board files carry the settings of DDR and clocks; without them the processor would not start.
set board [lindex [lsort -dictionary [get_board_parts -quiet "{board_part}:*"]] end]
if {{$board eq ""}} {{
    error "Vivado has no board files {board_part}; install them (Tools > Vivado Store > Boards)"
}}
create_project -force {design} $here/vivado -part {part}
set_property board_part $board [current_project]
set_property ip_repo_paths $here/ip [current_project]
update_ip_catalog
add_files -fileset constrs_1 -norecurse $here/{design}.xdc

create_bd_design {design}

# Processing system: registers over HPM0, memory over three HP ports, one interrupt, one clock.
set ps [create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e ps]
apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e -config {{apply_board_preset 1}} $ps
set_property -dict [list \\
    CONFIG.PSU__FPGA_PL0_ENABLE 1 \\
    CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ {clock_mhz:g} \\
    CONFIG.PSU__USE__M_AXI_GP0 1 \\
    CONFIG.PSU__MAXIGP0__DATA_WIDTH 32 \\
    CONFIG.PSU__USE__M_AXI_GP1 0 \\
    CONFIG.PSU__USE__M_AXI_GP2 0 \\
{memory_ports}    CONFIG.PSU__USE__IRQ0 1 \\
] $ps

set dpu [create_bd_cell -type ip -vlnv {vlnv} dpu]
set reset [create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset]
{clocks}connect_bd_net [get_bd_pins ps/pl_resetn0] [get_bd_pins reset/ext_reset_in]
set aresetn [get_bd_pins reset/peripheral_aresetn]
connect_bd_net $clock [get_bd_pins reset/slowest_sync_clk]
connect_bd_net $clock [get_bd_pins dpu/aclk]
connect_bd_net $aresetn [get_bd_pins dpu/aresetn]
connect_bd_net [get_bd_pins dpu/interrupt] [get_bd_pins ps/pl_ps_irq0]

# A SmartConnect between two ports: widths, protocol, IDs.
proc join_ports {{name from to}} {{
    upvar 1 clock clock aresetn aresetn
    create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect $name
    set_property -dict [list CONFIG.NUM_SI 1 CONFIG.NUM_MI 1] [get_bd_cells $name]
    connect_bd_net $clock [get_bd_pins $name/aclk]
    connect_bd_net $aresetn [get_bd_pins $name/aresetn]
    connect_bd_intf_net [get_bd_intf_pins $from] [get_bd_intf_pins $name/S00_AXI]
    connect_bd_intf_net [get_bd_intf_pins $name/M00_AXI] [get_bd_intf_pins $to]
}}
join_ports to_control ps/M_AXI_HPM0_FPD dpu/s_axi_control
connect_bd_net $clock [get_bd_pins ps/maxihpm0_fpd_aclk]
{connections}
{pins}
# Addresses: registers where the device tree says, memory where the processor has it.
assign_bd_address -offset {registers:#x} -range {registers_size:#x} \\
    -target_address_space [get_bd_addr_spaces ps/Data] \\
    [get_bd_addr_segs dpu/s_axi_control/registers]
{memory_addresses}
validate_bd_design
save_bd_design
set file [get_files {design}.bd]
generate_target all $file
add_files -norecurse [make_wrapper -files $file -top]
set_property top {design}_wrapper [current_fileset]

launch_runs impl_1 -to_step write_bitstream -jobs $jobs
wait_on_run impl_1
if {{[get_property PROGRESS [get_runs impl_1]] ne "100%"}} {{
    error "implementation did not finish; see $here/vivado/{design}.runs"
}}
open_run impl_1
report_utilization -hierarchical -file $here/utilization.txt
report_timing_summary -file $here/timing.txt
set slack [get_property SLACK [get_timing_paths -delay_type max]]
if {{$slack < 0}} {{
    error "{clock_mhz:g} MHz is missed by $slack ns; see $here/timing.txt, or take --clock-mhz"
}}
set gen $here/vivado/{design}.gen/sources_1/bd/{design}/hw_handoff/{design}.hwh
file copy -force $here/vivado/{design}.runs/impl_1/{design}_wrapper.bit $here/{design}.bit
file copy -force $gen $here/{design}.hwh
puts "wrote $here/{design}.bit and $here/{design}.hwh, slack $slack ns"
"""


_CLOCK = """\
set clock [get_bd_pins ps/pl_clk0]
"""

_TWO_CLOCKS = """\
# An MMCM makes the DPU's clock and one of twice its frequency, whose edges arrive together.
set clocks [create_bd_cell -type ip -vlnv xilinx.com:ip:clk_wiz clocks]
set_property -dict [list \\
    CONFIG.PRIMITIVE MMCM \\
    CONFIG.PRIM_SOURCE No_buffer \\
    CONFIG.CLK_OUT1_PORT {doubled} \\
    CONFIG.CLKOUT1_REQUESTED_OUT_FREQ {doubled_mhz:g} \\
    CONFIG.CLKOUT1_MATCHED_ROUTING true \\
    CONFIG.CLKOUT2_USED true \\
    CONFIG.CLK_OUT2_PORT aclk \\
    CONFIG.CLKOUT2_REQUESTED_OUT_FREQ {clock_mhz:g} \\
    CONFIG.CLKOUT2_MATCHED_ROUTING true \\
    CONFIG.USE_LOCKED true \\
    CONFIG.USE_RESET true \\
    CONFIG.RESET_TYPE ACTIVE_LOW \\
] $clocks
set doubled_divide [get_property CONFIG.MMCM_CLKOUT0_DIVIDE_F $clocks]
set divide [get_property CONFIG.MMCM_CLKOUT1_DIVIDE $clocks]
if {{$divide != 2 * $doubled_divide}} {{
    error "{doubled} has to be twice aclk, but their dividers are $doubled_divide and $divide"
}}
set clock [get_bd_pins clocks/aclk]
connect_bd_net [get_bd_pins ps/pl_clk0] [get_bd_pins clocks/clk_in1]
connect_bd_net [get_bd_pins ps/pl_resetn0] [get_bd_pins clocks/resetn]
connect_bd_net [get_bd_pins clocks/locked] [get_bd_pins reset/dcm_locked]
connect_bd_net [get_bd_pins clocks/{doubled}] [get_bd_pins dpu/{doubled}]
"""


def script(board: ZynqBoard, clock_mhz: float, *, double_rate: bool = False) -> str:
    """Return the Tcl script that builds the overlay of a board.

    With ``double_rate`` the DPU has a second clock, of twice ``clock_mhz``, for its DSP blocks.
    """
    memory_ports = "".join(
        f"    CONFIG.PSU__USE__S_AXI_GP{number} 1 \\\n"
        f"    CONFIG.PSU__SAXIGP{number}__DATA_WIDTH {_MEMORY_BITS} \\\n"
        for _, number in PORTS.values())
    connections = "".join(
        f"join_ports to_{port.lower()} dpu/{master} ps/S_AXI_{port}_FPD\n"
        f"connect_bd_net $clock [get_bd_pins ps/saxi{port.lower()}_fpd_aclk]\n"
        for master, (port, _) in PORTS.items())
    pins = "".join(
        f"# {pin.port}: {pin.reason}.\n"
        f"create_bd_cell -type ip -vlnv xilinx.com:ip:xlconstant {pin.port}_level\n"
        f"set_property -dict [list CONFIG.CONST_WIDTH 1 CONFIG.CONST_VAL {pin.value}] "
        f"[get_bd_cells {pin.port}_level]\n"
        f"connect_bd_net [get_bd_pins {pin.port}_level/dout] "
        f"[create_bd_port -dir O {pin.port}]\n"
        for pin in board.pins)
    clocks = _CLOCK
    if double_rate:
        clocks = _TWO_CLOCKS.format(
            doubled=DOUBLED_CLOCK, clock_mhz=clock_mhz, doubled_mhz=2 * clock_mhz)
    return _SCRIPT.format(
        title=board.title, design=DESIGN, part=board.part, board_part=board.board_part,
        clock_mhz=clock_mhz, clocks=clocks, memory_ports=memory_ports, connections=connections,
        pins=pins,
        vlnv=":".join((ipxact.VENDOR, ipxact.LIBRARY, ipxact.NAME, ipxact.VERSION)),
        registers=device_tree.REGISTERS, registers_size=device_tree.REGISTERS_SIZE,
        memory_addresses=_memory_addresses(board))


def _memory_addresses(board: ZynqBoard) -> str:
    """Return the commands that give the masters the DDR; above 2 GiB it is another segment."""
    segments = ("DDR_LOW", "DDR_HIGH") if board.memory_bytes > _LOW_BYTES else ("DDR_LOW",)
    return "".join(
        f"assign_bd_address -target_address_space [get_bd_addr_spaces dpu/{master}] "
        f"[get_bd_addr_segs ps/SAXIGP{number}/{port}_{segment}]\n"
        for master, (port, number) in PORTS.items() for segment in segments)


def constraints(board: ZynqBoard, *, double_rate: bool = False) -> str:
    """Return the XDC file: pins. Clocks are constrained where they are made.

    Nothing is excepted: what goes from the DPU's clock to the doubled one, or back, has half a
    cycle.
    """
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f"# {board.title}: clock and DDR come from the processing system, which constrains them.",
        *(["# The DPU's two clocks come from one MMCM. Paths between them are timed, none is "
           "excepted."] if double_rate else []),
        "set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]"]
    for pin in board.pins:
        port = f"[get_ports {pin.port}]"
        lines += [
            f"# {pin.port}: {pin.reason}.",
            f"set_property PACKAGE_PIN {pin.site} {port}",
            f"set_property IOSTANDARD {pin.standard} {port}",
            f"set_false_path -to {port}"]
    return "\n".join(lines) + "\n"
