// SPDX-License-Identifier: Apache-2.0
// DP16KD of ECP5, written from Lattice's FPGA-TN-02204 (ECP5 memory usage guide): both ports synchronous,
// read before write, with or without the register behind the memory. Only what the gateware uses. A port that
// reads a word which the other one writes in the same cycle gets nothing defined: here the word's complement.
module DP16KD #(
  parameter DATA_WIDTH_A = 18, parameter DATA_WIDTH_B = 18,
  parameter REGMODE_A = "NOREG", parameter REGMODE_B = "NOREG",
  parameter WRITEMODE_A = "NORMAL", parameter WRITEMODE_B = "NORMAL",
  parameter RESETMODE = "SYNC", parameter ASYNC_RESET_RELEASE = "SYNC", parameter GSR = "ENABLED",
  parameter CSDECODE_A = "0b000", parameter CSDECODE_B = "0b000",
  parameter CLKAMUX = "CLKA", parameter CLKBMUX = "CLKB"
) (
  input CLKA, CEA, OCEA, WEA, RSTA, CSA0, CSA1, CSA2,
  input ADA0, ADA1, ADA2, ADA3, ADA4, ADA5, ADA6, ADA7, ADA8, ADA9, ADA10, ADA11, ADA12, ADA13,
  input DIA0, DIA1, DIA2, DIA3, DIA4, DIA5, DIA6, DIA7, DIA8, DIA9, DIA10, DIA11, DIA12, DIA13,
  input DIA14, DIA15, DIA16, DIA17,
  output DOA0, DOA1, DOA2, DOA3, DOA4, DOA5, DOA6, DOA7, DOA8, DOA9, DOA10, DOA11, DOA12, DOA13,
  output DOA14, DOA15, DOA16, DOA17,
  input CLKB, CEB, OCEB, WEB, RSTB, CSB0, CSB1, CSB2,
  input ADB0, ADB1, ADB2, ADB3, ADB4, ADB5, ADB6, ADB7, ADB8, ADB9, ADB10, ADB11, ADB12, ADB13,
  input DIB0, DIB1, DIB2, DIB3, DIB4, DIB5, DIB6, DIB7, DIB8, DIB9, DIB10, DIB11, DIB12, DIB13,
  input DIB14, DIB15, DIB16, DIB17,
  output DOB0, DOB1, DOB2, DOB3, DOB4, DOB5, DOB6, DOB7, DOB8, DOB9, DOB10, DOB11, DOB12, DOB13,
  output DOB14, DOB15, DOB16, DOB17
);
  localparam SHIFT = DATA_WIDTH_A == 18 ? 4 : DATA_WIDTH_A == 9 ? 3 : DATA_WIDTH_A == 4 ? 2 :
                     DATA_WIDTH_A == 2 ? 1 : 0;
  reg [DATA_WIDTH_A-1:0] words [0:(1 << (14 - SHIFT))-1];
  wire [13:0] ada = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
  wire [13:0] adb = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
  wire [17:0] dia = {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5,
                     DIA4, DIA3, DIA2, DIA1, DIA0};
  wire [17:0] dib = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5,
                     DIB4, DIB3, DIB2, DIB1, DIB0};
  wire [13-SHIFT:0] a = ada[13:SHIFT], b = adb[13:SHIFT];
  wire writes_a = CEA & WEA, writes_b = CEB & WEB;
  reg [DATA_WIDTH_A-1:0] qa, qb, ra, rb;
  always @(posedge CLKA) begin
    if (CEA) qa <= words[a] ^ {DATA_WIDTH_A{writes_b & (a == b)}};
    if (CEB) qb <= words[b] ^ {DATA_WIDTH_A{writes_a & (a == b)}};
    if (OCEA) ra <= qa;
    if (OCEB) rb <= qb;
    if (writes_a) words[a] <= dia[DATA_WIDTH_A-1:0];
    if (writes_b) words[b] <= dib[DATA_WIDTH_A-1:0];
  end
  wire [17:0] doa = REGMODE_A == "OUTREG" ? ra : qa;
  wire [17:0] dob = REGMODE_B == "OUTREG" ? rb : qb;
  assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3,
          DOA2, DOA1, DOA0} = doa;
  assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3,
          DOB2, DOB1, DOB0} = dob;
endmodule
