package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestHeadersScript(t *testing.T) {
	testscript.Run(t, testscript.Params{Files: []string{"testdata/script/headers.txtar"}})
}
