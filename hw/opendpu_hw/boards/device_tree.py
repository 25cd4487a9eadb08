# SPDX-License-Identifier: Apache-2.0
"""What Linux is told of the DPU: a device tree overlay for UIO and u-dma-buf."""

from opendpu_hw.boards.catalog import ZynqBoard

#: Where the Vivado script puts the registers, and how many bytes.
REGISTERS, REGISTERS_SIZE = 0xA000_0000, 0x1000
#: Shared peripheral interrupt of ``pl_ps_irq0[0]`` (UG1085, table of interrupts: 121 is 32 + 89).
INTERRUPT = 89
#: ``PL0_REF`` of the kernel's clock driver for this family.
PL0_CLOCK = 71
#: Names by which the driver finds the devices.
UIO_NAME, BUFFER_NAME = "opendpu", "udmabuf-opendpu"
#: Bytes of memory that the driver gets where nobody says otherwise.
BUFFER_BYTES = 256 << 20

_LEVEL_HIGH = 4
#: How u-dma-buf maps memory that is opened with O_SYNC: past the caches, but as memory. Mapped as a
#: device, which is its default, it would fault on the accesses that copying makes on Arm.
_WRITE_COMBINED = 2
#: S_AXI_HP0 to HP2 are AFI 2 to 4, each with a word for reads and one for writes; 0 is 128 bits.
_PORTS = (4, 5, 6, 7, 8, 9)
#: Word 14 holds the widths of the processor's ports; 0 is 32 bits.
_PROCESSOR_PORTS = 14


def overlay(board: ZynqBoard, *, bitstream: str, clock_mhz: float,
            buffer_bytes: int = BUFFER_BYTES) -> str:
    """Return the source of the overlay.

    Parameters
    ----------
    board
        For its name.
    bitstream
        File in ``/lib/firmware`` that the overlay loads.
    clock_mhz
        Clock of the DPU.
    buffer_bytes
        What u-dma-buf reserves.
    """
    widths = ", ".join(f"<{word} 0>" for word in (*_PORTS, _PROCESSOR_PORTS))
    return f"""\
/* SPDX-License-Identifier: Apache-2.0 */
/* {board.title}: the DPU as a UIO device, with a buffer of u-dma-buf.
   The kernel needs uio_pdrv_genirq.of_id=generic-uio on its command line and u-dma-buf loaded. */
/dts-v1/;
/plugin/;

&fpga_full {{
	firmware-name = "{bitstream}";
	clocking0: clocking0 {{
		compatible = "xlnx,fclk";
		#clock-cells = <0>;
		clocks = <&zynqmp_clk {PL0_CLOCK}>;
		assigned-clocks = <&zynqmp_clk {PL0_CLOCK}>;
		assigned-clock-rates = <{round(clock_mhz * 1e6)}>;
		clock-output-names = "fabric_clk";
	}};
}};

&amba {{
	#address-cells = <2>;
	#size-cells = <2>;
	afi0: afi0 {{
		compatible = "xlnx,afi-fpga";
		config-afi = {widths};
	}};
	{UIO_NAME}: {UIO_NAME}@{REGISTERS:x} {{
		compatible = "generic-uio";
		reg = <0x0 {REGISTERS:#x} 0x0 {REGISTERS_SIZE:#x}>;
		interrupt-parent = <&gic>;
		interrupts = <0 {INTERRUPT} {_LEVEL_HIGH}>;
	}};
	{BUFFER_NAME} {{
		compatible = "ikwzm,u-dma-buf";
		device-name = "{BUFFER_NAME}";
		size = <{buffer_bytes:#x}>;
		sync-mode = <{_WRITE_COMBINED}>;
	}};
}};
"""
