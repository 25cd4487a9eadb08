# SPDX-License-Identifier: Apache-2.0
# Vivado's commands, as far as vivado.tcl uses them: a block design that knows which pins its cells have.
# Anything unknown is an error. Prints every net, interface connection and address at the end.

array set pins {
    xilinx.com:ip:zynq_ultra_ps_e {pl_clk0 pl_resetn0 pl_ps_irq0}
    xilinx.com:ip:proc_sys_reset {ext_reset_in slowest_sync_clk dcm_locked peripheral_aresetn}
    xilinx.com:ip:clk_wiz {clk_in1 locked}
    xilinx.com:ip:smartconnect {aclk aresetn}
    xilinx.com:ip:xlconstant {dout}
    opendpu:opendpu:dpu:1.0 {aclk dpu_2x_clk aresetn interrupt}
}
array set interfaces {
    xilinx.com:ip:zynq_ultra_ps_e {}
    xilinx.com:ip:proc_sys_reset {}
    xilinx.com:ip:smartconnect {S00_AXI M00_AXI}
    xilinx.com:ip:clk_wiz {}
    xilinx.com:ip:xlconstant {}
    opendpu:opendpu:dpu:1.0 {s_axi_control m_axi_instr m_axi_data0 m_axi_data1}
}
# Ports of the processing system that its parameters switch on: the interface and its clock.
array set switched {
    PSU__USE__M_AXI_GP0 {M_AXI_HPM0_FPD maxihpm0_fpd_aclk}
    PSU__USE__S_AXI_GP2 {S_AXI_HP0_FPD saxihp0_fpd_aclk}
    PSU__USE__S_AXI_GP3 {S_AXI_HP1_FPD saxihp1_fpd_aclk}
    PSU__USE__S_AXI_GP4 {S_AXI_HP2_FPD saxihp2_fpd_aclk}
}
array set kind {}
set log {}
set slack 0.25

proc need {cell what table} {
    upvar #0 kind kind $table known
    if {![info exists kind($cell)]} { error "no cell $cell" }
    if {[lsearch -exact $known($kind($cell)) $what] < 0} { error "$cell has no $what in $table" }
    return $cell/$what
}
proc get_board_parts {args} {
    return [expr {$::env(BOARD_FILES) ? {vendor:board:part0:1.9 vendor:board:part0:1.10} : {}}]
}
proc create_project {args} { lappend ::log "project [lrange $args end-1 end]" }
proc current_project {} { return project }
proc current_fileset {} { return sources_1 }
proc update_ip_catalog {} {}
proc add_files {args} { lappend ::log "file [file tail [lindex $args end]]" }
proc create_bd_design {name} { lappend ::log "design $name" }
proc create_bd_cell {args} {
    lassign $args - - - vlnv name
    if {![info exists ::pins($vlnv)]} { error "no IP $vlnv" }
    set ::kind($name) $vlnv
    return $name
}
proc get_bd_cells {name} {
    if {![info exists ::kind($name)]} { error "no cell $name" }
    return $name
}
proc apply_bd_automation {args} { lappend ::log "automation [lrange $args end-1 end]" }
proc set_property {args} {
    if {[lindex $args 0] ne "-dict"} { lappend ::log "property $args"; return }
    lassign $args - values cell
    foreach {name value} $values {
        set name [string range $name [string length CONFIG.] end]
        lappend ::log "config $cell $name $value"
        if {$value eq "1" && [info exists ::switched($name)]} {
            lassign $::switched($name) interface clock
            lappend ::interfaces($::kind($cell)) $interface
            lappend ::pins($::kind($cell)) $clock
        }
        # What the clocking wizard's parameters name or switch on is a pin.
        if {[string match CLK_OUT?_PORT $name]} { lappend ::pins($::kind($cell)) $value }
        if {$name eq "RESET_TYPE" && $value eq "ACTIVE_LOW"} { lappend ::pins($::kind($cell)) resetn }
    }
}
proc get_bd_pins {path} { return [need {*}[split $path /] pins] }
proc get_bd_intf_pins {path} { return [need {*}[split $path /] interfaces] }
proc create_bd_port {args} { return "port/[lindex $args end]" }
proc connect_bd_net {from to} { lappend ::log "net $from $to" }
proc connect_bd_intf_net {from to} { lappend ::log "interface $from $to" }
proc get_bd_addr_spaces {path} { return $path }
proc get_bd_addr_segs {path} { return $path }
proc assign_bd_address {args} { lappend ::log "address $args" }
proc validate_bd_design {} {}
proc save_bd_design {} {}
proc get_files {name} { return $name }
proc generate_target {args} {}
proc make_wrapper {args} { return wrapper.v }
proc launch_runs {args} { lappend ::log "runs $args" }
proc wait_on_run {args} {}
proc get_runs {name} { return $name }
proc get_property {name of} {
    return [dict get [dict create PROGRESS $::env(PROGRESS) SLACK $::env(SLACK) \
        CONFIG.MMCM_CLKOUT0_DIVIDE_F 6.000 CONFIG.MMCM_CLKOUT1_DIVIDE $::env(DIVIDE)] $name]
}
proc open_run {name} {}
proc report_utilization {args} {}
proc report_timing_summary {args} {}
proc get_timing_paths {args} { return path }
rename file tcl_file
proc file {command args} {
    if {$command eq "copy"} { lappend ::log "copy [tcl_file tail [lindex $args end]]"; return }
    return [tcl_file $command {*}$args]
}
rename exit tcl_exit

if {[catch {source [lindex $argv 0]} message]} { puts "error $message"; tcl_exit 1 }
foreach interface $::interfaces(xilinx.com:ip:zynq_ultra_ps_e) { puts "has $interface" }
foreach line $log { puts $line }
