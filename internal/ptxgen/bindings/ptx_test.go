package bindings

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

const somePTX = `
.version 6.3
.target sm_70
.visible .const .align 8 .u64 ptxgen_const_size = 4096;
.visible .const .align 8 .u64 ptxgen_const_none;
.visible .global .align 8 .u64 ptxgen_const_most = -1;
.visible .entry mixed(
	.param .u8 mixed_param_0,
	.param .u64 .ptr .global .align 1 mixed_param_1,
	.param .u16 mixed_param_2,
	.param .align 16 .b8 mixed_param_3[24],
	.param .f32 mixed_param_4,
	.param .f64 mixed_param_5
)
.maxntid 256, 1, 1
{
	mov.u64 %rd1, ptxgen_const_size;
}
.visible .entry empty()
{
}
.visible .entry bare
{
}`

func TestParsePTX(t *testing.T) {
	got, err := parsePTX(somePTX)
	want := program{
		entries: []entry{
			{"mixed", []slot{{0, 1}, {8, 8}, {16, 2}, {32, 24}, {56, 4}, {64, 8}}, 72},
			{"empty", nil, 0},
			{"bare", nil, 0},
		},
		constants: []constant{{"size", 4096}, {"none", 0}, {"most", math.MaxUint64}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

func TestParsePTXRefuses(t *testing.T) {
	entry := func(params string) string { return ".visible .entry k(\n" + params + "\n)\n{\n}" }
	for _, row := range []struct{ text, want string }{
		{entry(".param .u32 a,\n.param .align 8 .b8 b[4096]"), "4104 bytes"},
		{entry(".param .texref a"), "cannot read"},
		{entry(".param .u7 a"), "cannot read"},
		{entry(".param .u128 a"), "cannot read"},
		{".visible .const .align 4 .u32 ptxgen_const_a = 1;", "TRITIER_EXPORT_CONST"},
		{".visible .const .align 8 .b8 ptxgen_const_a[16] = {1};", "TRITIER_EXPORT_CONST"},
		{".visible .const .align 8 .u64 ptxgen_const_a = generic(b);", "TRITIER_EXPORT_CONST"},
	} {
		if got, err := parsePTX(row.text); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %+v, %v; want an error with %s", row.text, got, err, row.want)
		}
	}
	if _, err := parsePTX(entry(".param .align 8 .b8 b[4096]")); err != nil {
		t.Errorf("a block of 4,096 bytes: %v", err)
	}
}
