// SPDX-License-Identifier: Apache-2.0
// After reset, with registers and memories unknown before it: every register that the host reads, every
// output that is valid, and a program of LOAD, SAVE and END are known. Prints PASS, or what is unknown.
`timescale 1ns / 1ns
module startup_bench;
  reg aclk = 0, aresetn = 0;
  always #5 aclk = ~aclk;

  reg [11:0] awaddr = 0, araddr = 0;
  reg awvalid = 0, wvalid = 0, arvalid = 0, bready = 1, rready = 1;
  reg [31:0] wdata = 0;
  wire awready, wready, bvalid, arready, rvalid, interrupt;
  wire [31:0] rdata;
  wire [1:0] bresp, rresp;

  reg [31:0] code [0:63];
  reg [127:0] data [0:15];

  // The instruction port: a burst at a time.
  wire i_arvalid; wire [39:0] i_araddr; wire [7:0] i_arlen;
  reg i_busy = 0; reg [39:0] i_at = 0; reg [7:0] i_left = 0;
  // Data ports.
  wire [1:0] d_arvalid, d_awvalid, d_wvalid, d_wlast, d_rready, d_bready;
  wire [39:0] d_araddr0, d_araddr1, d_awaddr0, d_awaddr1;
  wire [7:0] d_arlen0, d_arlen1, d_awlen0, d_awlen1;
  wire [127:0] d_wdata0, d_wdata1;
  wire [15:0] d_wstrb0, d_wstrb1;
  wire i_rready;
  wire [8:0] events;
  reg r_busy = 0, w_busy = 0, b_valid = 0;
  reg [39:0] r_at = 0, w_at = 0;
  reg [7:0] r_left = 0;

  opendpu_top dut (
    .aclk(aclk), .aresetn(aresetn), .interrupt(interrupt), .events(events),
    .s_axi_control_awaddr(awaddr), .s_axi_control_awvalid(awvalid), .s_axi_control_awready(awready),
    .s_axi_control_awprot(3'd0), .s_axi_control_arprot(3'd0),
    .s_axi_control_wdata(wdata), .s_axi_control_wstrb(4'hf), .s_axi_control_wvalid(wvalid),
    .s_axi_control_wready(wready), .s_axi_control_bvalid(bvalid), .s_axi_control_bready(bready),
    .s_axi_control_bresp(bresp), .s_axi_control_araddr(araddr), .s_axi_control_arvalid(arvalid),
    .s_axi_control_arready(arready), .s_axi_control_rdata(rdata), .s_axi_control_rresp(rresp),
    .s_axi_control_rvalid(rvalid), .s_axi_control_rready(rready),
    .m_axi_instr_arvalid(i_arvalid), .m_axi_instr_araddr(i_araddr), .m_axi_instr_arlen(i_arlen),
    .m_axi_instr_arready(~i_busy), .m_axi_instr_rvalid(i_busy), .m_axi_instr_rready(i_rready),
    .m_axi_instr_rdata(code[i_at[7:2]]), .m_axi_instr_rlast(i_left == 0), .m_axi_instr_rresp(2'd0),
    .m_axi_instr_rid(1'd0),
    .m_axi_data0_arvalid(d_arvalid[0]), .m_axi_data0_araddr(d_araddr0), .m_axi_data0_arlen(d_arlen0),
    .m_axi_data0_arready(~r_busy), .m_axi_data0_rvalid(r_busy), .m_axi_data0_rready(d_rready[0]),
    .m_axi_data0_rdata(data[r_at[7:4]]), .m_axi_data0_rlast(r_left == 0), .m_axi_data0_rresp(2'd0),
    .m_axi_data0_rid(1'd0),
    .m_axi_data0_awvalid(d_awvalid[0]), .m_axi_data0_awaddr(d_awaddr0), .m_axi_data0_awlen(d_awlen0),
    .m_axi_data0_awready(~w_busy), .m_axi_data0_wvalid(d_wvalid[0]), .m_axi_data0_wlast(d_wlast[0]),
    .m_axi_data0_wdata(d_wdata0), .m_axi_data0_wstrb(d_wstrb0), .m_axi_data0_wready(w_busy & ~b_valid),
    .m_axi_data0_bvalid(b_valid), .m_axi_data0_bready(d_bready[0]), .m_axi_data0_bresp(2'd0),
    .m_axi_data0_bid(1'd0),
    .m_axi_data1_arvalid(d_arvalid[1]), .m_axi_data1_araddr(d_araddr1), .m_axi_data1_arlen(d_arlen1),
    .m_axi_data1_arready(1'b0), .m_axi_data1_rvalid(1'b0), .m_axi_data1_rready(d_rready[1]),
    .m_axi_data1_rdata(128'd0), .m_axi_data1_rlast(1'b0), .m_axi_data1_rresp(2'd0),
    .m_axi_data1_rid(1'd0),
    .m_axi_data1_awvalid(d_awvalid[1]), .m_axi_data1_awaddr(d_awaddr1), .m_axi_data1_awlen(d_awlen1),
    .m_axi_data1_awready(1'b0), .m_axi_data1_wvalid(d_wvalid[1]), .m_axi_data1_wlast(d_wlast[1]),
    .m_axi_data1_wdata(d_wdata1), .m_axi_data1_wstrb(d_wstrb1), .m_axi_data1_wready(1'b0),
    .m_axi_data1_bvalid(1'b0), .m_axi_data1_bready(d_bready[1]), .m_axi_data1_bresp(2'd0),
    .m_axi_data1_bid(1'd0)
  );

  integer b;
  always @(posedge aclk) begin
    if (i_busy & i_rready) begin
      i_at <= i_at + 4; i_left <= i_left - 1;
      if (i_left == 0) i_busy <= 0;
    end
    if (i_arvalid & ~i_busy) begin i_busy <= 1; i_at <= i_araddr; i_left <= i_arlen; end
    if (r_busy & d_rready[0]) begin
      r_at <= r_at + 16; r_left <= r_left - 1;
      if (r_left == 0) r_busy <= 0;
    end
    if (d_arvalid[0] & ~r_busy) begin r_busy <= 1; r_at <= d_araddr0; r_left <= d_arlen0; end
    if (d_awvalid[0] & ~w_busy) begin w_busy <= 1; w_at <= d_awaddr0; end
    if (w_busy & d_wvalid[0] & ~b_valid) begin
      for (b = 0; b < 16; b = b + 1)
        if (d_wstrb0[b]) data[w_at[7:4]][8*b +: 8] = d_wdata0[8*b +: 8];
      w_at <= w_at + 16;
      if (d_wlast[0]) b_valid <= 1;
    end
    if (b_valid & d_bready[0]) begin b_valid <= 0; w_busy <= 0; end
  end

  // What is unknown: control always, what it accompanies while valid.
  reg watching = 0;
  always @(negedge aclk) if (watching) begin
    if (^{awready, wready, bvalid, arready, rvalid, interrupt, events, i_arvalid, i_rready, d_arvalid,
          d_awvalid, d_wvalid, d_rready, d_bready} === 1'bx) fail("control");
    if (rvalid && ^{rdata, rresp} === 1'bx) fail("a register");
    if (i_arvalid && ^{i_araddr, i_arlen} === 1'bx) fail("the address of an instruction");
    if (d_arvalid[0] && ^{d_araddr0, d_arlen0} === 1'bx) fail("the address of a read");
    if (d_awvalid[0] && ^{d_awaddr0, d_awlen0} === 1'bx) fail("the address of a write");
    if (d_wvalid[0]) begin
      if (^{d_wlast[0], d_wstrb0} === 1'bx) fail("strobes");
      for (b = 0; b < 16; b = b + 1)
        if (d_wstrb0[b] && ^d_wdata0[8*b +: 8] === 1'bx) fail("a byte that is written");
    end
  end

  task fail(input [8*40-1:0] what);
    begin
      $display("FAIL: %0s is unknown at %0d", what, $time);
      $finish;
    end
  endtask

  reg [1:0] taken;
  task write(input [11:0] address, input [31:0] value);
    begin
      @(negedge aclk) awaddr = address; wdata = value; awvalid = 1; wvalid = 1;
      while (awvalid | wvalid) begin
        @(posedge aclk);
        taken = {awvalid & awready, wvalid & wready};
        #1 if (taken[1]) awvalid = 0;
        if (taken[0]) wvalid = 0;
      end
      while (bvalid !== 1) @(posedge aclk);
      @(posedge aclk);
    end
  endtask

  task read(input [11:0] address);
    begin
      @(negedge aclk) araddr = address; arvalid = 1;
      while (arvalid) begin
        @(posedge aclk);
        if (arready) #1 arvalid = 0;
      end
      while (rvalid !== 1) @(posedge aclk);
      @(posedge aclk);
    end
  endtask

  initial begin
    #100000 $display("FAIL: stuck");
    $finish;
  end

  integer n;
  initial begin
    $readmemh("code.hex", code);
    for (n = 0; n < 16; n = n + 1) data[n] = {4{32'h01020304 + n}};
    repeat (4) @(posedge aclk);
    #1 aresetn = 1;
    repeat (3) @(posedge aclk);
    watching = 1;
    for (n = 0; n < 12'h260; n = n + 4) read(n[11:0]);
    write(12'h04, 1); write(12'h08, 1); write(12'h50, 0); write(12'h54, 0);
    write(12'h68, 0); write(12'h6c, 0);
    write(12'h00, 1);
    n = 0;
    while (interrupt !== 1 && n < 2000) begin @(posedge aclk); n = n + 1; end
    if (n == 2000) $display("FAIL: no interrupt");
    else if (data[4][31:0] !== data[0][31:0]) $display("FAIL: %h was saved", data[4][31:0]);
    else begin
      read(12'h200);
      if (rdata !== 0) $display("FAIL: STATUS is %h", rdata);
      else $display("PASS after %0d cycles", n);
    end
    $finish;
  end
endmodule
