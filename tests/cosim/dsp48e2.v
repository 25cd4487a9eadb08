// SPDX-License-Identifier: Apache-2.0
// DSP48E2 as UltraScale+'s user guide UG579 describes it, as far as the DPU uses it: 27x18 multiplier
// behind the pre-adder, 48-bit sum, cascade of P, also shifted. What it does not know makes `P` a value that no test
// takes for right.

module DSP48E2 #(
    parameter AMULTSEL = "A", BMULTSEL = "B", PREADDINSEL = "A", USE_MULT = "MULTIPLY",
    parameter A_INPUT = "DIRECT", B_INPUT = "DIRECT", USE_SIMD = "ONE48",
    parameter [47:0] RND = 48'd0,
    parameter integer AREG = 1, ACASCREG = 1, BREG = 1, BCASCREG = 1, DREG = 1, ADREG = 1, MREG = 1,
    PREG = 1, CREG = 1, INMODEREG = 1, OPMODEREG = 1, ALUMODEREG = 1, CARRYINREG = 1, CARRYINSELREG = 1
) (
    input CLK,
    input [29:0] A, input [17:0] B, input [47:0] C, input [26:0] D, input [47:0] PCIN,
    input [8:0] OPMODE, input [3:0] ALUMODE, input [4:0] INMODE, input [2:0] CARRYINSEL, input CARRYIN,
    input CEA1, CEA2, CEAD, CEALUMODE, CEB1, CEB2, CEC, CECARRYIN, CECTRL, CED, CEINMODE, CEM, CEP,
    input RSTA, RSTALLCARRYIN, RSTALUMODE, RSTB, RSTC, RSTCTRL, RSTD, RSTINMODE, RSTM, RSTP,
    output [47:0] P, output [47:0] PCOUT
);
  // -- registers, each bypassed where its parameter is 0 -------------------------------------------
  reg [29:0] a1, a2;
  reg [17:0] b1, b2;
  reg [47:0] c_q, p_q;
  reg [26:0] d_q;
  reg signed [26:0] ad_q;
  reg signed [44:0] m_q;
  reg [8:0] opmode_q;
  reg [3:0] alumode_q;
  reg [4:0] inmode_q;

  wire [8:0] opmode = OPMODEREG != 0 ? opmode_q : OPMODE;
  wire [3:0] alumode = ALUMODEREG != 0 ? alumode_q : ALUMODE;
  wire [4:0] inmode = INMODEREG != 0 ? inmode_q : INMODE;
  wire [29:0] a_first = AREG == 2 ? a1 : A;
  wire [17:0] b_first = BREG == 2 ? b1 : B;
  wire [29:0] a_last = AREG != 0 ? a2 : A;
  wire [17:0] b_last = BREG != 0 ? b2 : B;
  wire [47:0] c = CREG != 0 ? c_q : C;

  // -- pre-adder: INMODE[1] gates A, [2] lets D in, [3] subtracts; [0] and [4] choose A1 and B1 -------
  wire signed [26:0] a_operand = inmode[1] ? 27'd0 : (inmode[0] ? a1[26:0] : a_last[26:0]);
  wire signed [26:0] d_operand = inmode[2] ? (DREG != 0 ? d_q : D) : 27'd0;
  wire signed [26:0] ad_sum = inmode[3] ? d_operand - a_operand : d_operand + a_operand;
  wire signed [26:0] ad = ADREG != 0 ? ad_q : ad_sum;
  wire signed [26:0] left = AMULTSEL == "AD" ? ad : a_operand;
  wire signed [17:0] right = inmode[4] ? b1 : b_last;
  wire signed [44:0] product = left * right;
  wire signed [44:0] m = MREG != 0 ? m_q : product;

  // -- sum: W + Z + X + Y; X and Y are the two halves of the product, here all of it in X, or A:B
  // and nothing --------------------------------------------------------------------------------------
  wire product_mode = opmode[3:0] == 4'b0101 && USE_MULT == "MULTIPLY";
  wire joined_mode = opmode[3:0] == 4'b0011 && USE_MULT == "NONE" && MREG == 0;
  wire signed [47:0] joined = {a_last, b_last}, x = opmode[3:0] == 4'b0000 ? 48'sd0 :
                     opmode[3:0] == 4'b0011 ? joined : m;
  wire signed [47:0] shifted = $signed(PCIN) >>> 17;
  wire [47:0] z = opmode[6:4] == 3'b000 ? 48'd0 : opmode[6:4] == 3'b001 ? PCIN :
                  opmode[6:4] == 3'b010 ? p_q : opmode[6:4] == 3'b011 ? c :
                  opmode[6:4] == 3'b101 ? shifted : {48{1'bx}};
  wire [47:0] w = opmode[8:7] == 2'b00 ? 48'd0 : opmode[8:7] == 2'b01 ? p_q : opmode[8:7] == 2'b10 ? RND : c;
  wire known = (product_mode || joined_mode || opmode[3:0] == 4'b0000)
      && (opmode[8:7] != 2'b01 || PREG != 0) && alumode == 4'b0000
      && (opmode[6:4] < 3'b100 || opmode[6:4] == 3'b101)
      && CARRYINSEL == 3'd0 && !CARRYIN && BMULTSEL == "B"
      && PREADDINSEL == "A" && A_INPUT == "DIRECT" && B_INPUT == "DIRECT" && USE_SIMD == "ONE48"
      && !(AREG == 1 && inmode[0]) && ACASCREG <= AREG && BCASCREG <= BREG;
  wire [47:0] total = known ? w + z + x : 48'h5A5A_DEAD_BEEF;

  always @(posedge CLK) begin
    if (RSTA) begin a1 <= 0; a2 <= 0; end
    else begin
      if (CEA1) a1 <= A;
      if (CEA2) a2 <= a_first;
    end
    if (RSTB) begin b1 <= 0; b2 <= 0; end
    else begin
      if (CEB1) b1 <= B;
      if (CEB2) b2 <= b_first;
    end
    if (RSTC) c_q <= 0; else if (CEC) c_q <= C;
    if (RSTD) begin d_q <= 0; ad_q <= 0; end
    else begin
      if (CED) d_q <= D;
      if (CEAD) ad_q <= ad_sum;
    end
    if (RSTM) m_q <= 0; else if (CEM) m_q <= product;
    if (RSTP) p_q <= 0; else if (CEP) p_q <= total;
    if (RSTCTRL) opmode_q <= 0; else if (CECTRL) opmode_q <= OPMODE;
    if (RSTALUMODE) alumode_q <= 0; else if (CEALUMODE) alumode_q <= ALUMODE;
    if (RSTINMODE) inmode_q <= 0; else if (CEINMODE) inmode_q <= INMODE;
  end
  assign P = PREG != 0 ? p_q : total;
  assign PCOUT = P;
endmodule
