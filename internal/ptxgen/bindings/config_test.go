package bindings

import (
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestParseArgs(t *testing.T) {
	c, err := ParseArgs(strings.Fields("-package x -o x_gen.go -arch sm_90,sm_70,sm_80 -I ../a/ -I b a.cu b-c.cu"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Package: "x", Output: "x_gen.go", Type: "Kernels", Includes: []string{"../a", "b"}, Sources: []string{"a.cu", "b-c.cu"},
		Targets: []Target{{"sm_70", "+ptx63"}, {"sm_80", "+ptx70"}, {"sm_90", "+ptx78"}},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	again, err := ParseArgs(c.Args(), io.Discard)
	if err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("its own arguments %q read as %+v, %v", c.Args(), again, err)
	}
	if got := c.ptxName("b-c.cu", c.Targets[1]); got != "b-c.sm_80.ptx" {
		t.Errorf("PTX of one of several targets: %s", got)
	}
	c.Targets = c.Targets[:1]
	if got := c.ptxName("a.cu", c.Targets[0]); got != "a.ptx" {
		t.Errorf("PTX of the only target: %s", got)
	}
}

func TestParseArgsPairsVersions(t *testing.T) {
	c, err := ParseArgs(strings.Fields("-package x -o x_gen.go -arch sm_90,sm_75 -ptx +ptx80,+ptx64 a.cu"), io.Discard)
	want := []Target{{"sm_75", "+ptx64"}, {"sm_90", "+ptx80"}}
	if err != nil || !reflect.DeepEqual(c.Targets, want) {
		t.Errorf("got %v, %v; want %v", c.Targets, err, want)
	}
}

func TestParseArgsRefuses(t *testing.T) {
	for _, row := range []struct{ args, want string }{
		{"-o x_gen.go a.cu", `-package ""`},
		{"-package 1x -o x_gen.go a.cu", `-package "1x"`},
		{"-package x a.cu", `-o ""`},
		{"-package x -o x.go a.cu", "NAME_gen.go"},
		{"-package x -o y/x_gen.go a.cu", "in this folder"},
		{"-package x -o x_gen.go", "no source"},
		{"-package x -o x_gen.go a.c", `"a.c"`},
		{"-package x -o x_gen.go b/a.cu", `"b/a.cu"`},
		{"-package x -o x_gen.go a.cu a.cu", "twice"},
		{"-package x -o x_gen.go -I /abs a.cu", "relative path"},
		{"-package x -o x_gen.go -type 9 a.cu", `-type "9"`},
		{"-package x -o x_gen.go -arch 70 a.cu", "sm_70"},
		{"-package x -o x_gen.go -arch sm_90a a.cu", "sm_90a"},
		{"-package x -o x_gen.go -arch sm_70,sm_70 a.cu", "twice"},
		{"-package x -o x_gen.go -arch sm_123 a.cu", "give it with -ptx"},
		{"-package x -o x_gen.go -arch sm_70,sm_90 -ptx +ptx63 a.cu", "one version"},
		{"-package x -o x_gen.go -ptx +ptx63,+ptx70 a.cu", "one version"},
		{"-package x -o x_gen.go -ptx 63 a.cu", "+ptx63"},
		{"-nonsense", "nonsense"},
	} {
		if _, err := ParseArgs(strings.Fields(row.args), io.Discard); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want an error with %s", row.args, err, row.want)
		}
	}
	_, err := ParseArgs(nil, io.Discard)
	for _, want := range []string{"-package", "-o", "no source"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no arguments: %v does not say %s", err, want)
		}
	}
}
