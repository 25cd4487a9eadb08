// SPDX-License-Identifier: Apache-2.0
// URAM288_BASE as UltraScale+'s user guide UG573 describes it, as far as the DPU uses it: two ports, port A
// served first, no change of a port's output while it writes, output registers. What it does not know makes
// the outputs a value that no test takes for right.

module URAM288_BASE #(
    parameter AUTO_SLEEP_LATENCY = 8, AVG_CONS_INACTIVE_CYCLES = 10, EN_AUTO_SLEEP_MODE = "FALSE",
    parameter BWE_MODE_A = "PARITY_INTERLEAVED", BWE_MODE_B = "PARITY_INTERLEAVED",
    parameter EN_ECC_RD_A = "FALSE", EN_ECC_RD_B = "FALSE", EN_ECC_WR_A = "FALSE", EN_ECC_WR_B = "FALSE",
    parameter IREG_PRE_A = "FALSE", IREG_PRE_B = "FALSE", OREG_A = "FALSE", OREG_B = "FALSE",
    parameter OREG_ECC_A = "FALSE", OREG_ECC_B = "FALSE", RST_MODE_A = "SYNC", RST_MODE_B = "SYNC",
    parameter USE_EXT_CE_A = "FALSE", USE_EXT_CE_B = "FALSE"
) (
    input CLK, input SLEEP,
    input [22:0] ADDR_A, ADDR_B, input [8:0] BWE_A, BWE_B, input [71:0] DIN_A, DIN_B, input EN_A, EN_B,
    input RDB_WR_A, RDB_WR_B, RST_A, RST_B, OREG_CE_A, OREG_CE_B, OREG_ECC_CE_A, OREG_ECC_CE_B,
    input INJECT_DBITERR_A, INJECT_DBITERR_B, INJECT_SBITERR_A, INJECT_SBITERR_B,
    output [71:0] DOUT_A, DOUT_B
);
  reg [71:0] words [0:4095];
  reg [71:0] a_read, b_read, a_register, b_register;
  reg a_before, b_before;               // the port read a cycle ago

  integer i;
  initial begin
    for (i = 0; i < 4096; i = i + 1) words[i] = 72'd0;
    a_read = 0; b_read = 0; a_register = 0; b_register = 0; a_before = 0; b_before = 0;
  end

  // A word after a write: with interleaved parity, bit n of the enables is that of byte n and of bit 64 + n.
  function [71:0] merged(input [71:0] old, input [71:0] given, input [7:0] enables);
    integer n;
    for (n = 0; n < 8; n = n + 1) begin
      merged[8 * n +: 8] = enables[n] ? given[8 * n +: 8] : old[8 * n +: 8];
      merged[64 + n] = enables[n] ? given[64 + n] : old[64 + n];
    end
  endfunction

  always @(posedge CLK) begin
    // output registers: what was there before this edge, while the port works or has read a cycle ago
    if (EN_A || a_before) a_register <= a_read;
    if (EN_B || b_before) b_register <= b_read;
    a_before <= EN_A && !RDB_WR_A;
    b_before <= EN_B && !RDB_WR_B;
    // in this order, so that port B sees what port A has written, and port A not what port B writes
    if (EN_A) begin
      if (RDB_WR_A) words[ADDR_A[11:0]] = merged(words[ADDR_A[11:0]], DIN_A, BWE_A[7:0]);
      else a_read <= words[ADDR_A[11:0]];
    end
    if (EN_B) begin
      if (RDB_WR_B) words[ADDR_B[11:0]] = merged(words[ADDR_B[11:0]], DIN_B, BWE_B[7:0]);
      else b_read <= words[ADDR_B[11:0]];
    end
  end

  wire known = !SLEEP && !RST_A && !RST_B && ADDR_A[22:12] == 0 && ADDR_B[22:12] == 0
      && EN_AUTO_SLEEP_MODE == "FALSE" && BWE_MODE_A == "PARITY_INTERLEAVED"
      && BWE_MODE_B == "PARITY_INTERLEAVED" && EN_ECC_RD_A == "FALSE" && EN_ECC_RD_B == "FALSE"
      && EN_ECC_WR_A == "FALSE" && EN_ECC_WR_B == "FALSE" && IREG_PRE_A == "FALSE" && IREG_PRE_B == "FALSE"
      && OREG_ECC_A == "FALSE" && OREG_ECC_B == "FALSE" && USE_EXT_CE_A == "FALSE" && USE_EXT_CE_B == "FALSE"
      && !INJECT_DBITERR_A && !INJECT_DBITERR_B && !INJECT_SBITERR_A && !INJECT_SBITERR_B;
  assign DOUT_A = !known ? 72'hDEAD_BEEF_5A5A_DEAD_BE : OREG_A == "TRUE" ? a_register : a_read;
  assign DOUT_B = !known ? 72'hDEAD_BEEF_5A5A_DEAD_BE : OREG_B == "TRUE" ? b_register : b_read;
endmodule
