package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tritier/tritier/internal/units"
)

// filled is a flag's value that refuses to be empty: an empty value, mostly a
// shell variable that is not set, must not count as "not given".
type filled struct{ pflag.Value }

var errEmpty = errors.New("the value is empty")

// Set implements pflag.Value.
func (f filled) Set(s string) error {
	if strings.TrimSpace(s) == "" {
		return errEmpty
	}
	return f.Value.Set(s)
}

// refuseEmptyValues makes an empty value an error for every flag of c and of
// its subcommands.
func refuseEmptyValues(c *cobra.Command) {
	wrap := func(f *pflag.Flag) {
		if f.NoOptDefVal != "" { // a switch
			return
		}
		if f.DefValue == "[]" {
			f.DefValue = "" // the help leaves it out
		}
		f.Value = filled{f.Value}
	}
	c.Flags().VisitAll(wrap)
	for _, sub := range c.Commands() {
		refuseEmptyValues(sub)
	}
}

// flagError says in the words of this program what is wrong with a flag.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	name, value := "--"+invalid.GetFlag().Name, invalid.GetValue()
	var number *strconv.NumError
	var list *csv.ParseError
	var quantity *units.Error
	cause := invalid.Unwrap()
	switch {
	case errors.Is(cause, errEmpty):
		return fmt.Errorf("%s: %w", name, errEmpty)
	case strings.HasPrefix(value, "-") && (errors.As(cause, &number) || errors.As(cause, &quantity)):
		return fmt.Errorf("%s: %q is negative", name, value)
	case errors.As(cause, &number) && errors.Is(number.Err, strconv.ErrRange):
		return fmt.Errorf("%s: %q is too large", name, value)
	case errors.As(cause, &number) && invalid.GetFlag().Value.Type() == "bool":
		return fmt.Errorf("%s: %q is neither true nor false", name, value)
	case errors.As(cause, &number) && strings.HasPrefix(invalid.GetFlag().Value.Type(), "float"):
		return fmt.Errorf("%s: %q is not a number", name, value)
	case errors.As(cause, &number):
		return fmt.Errorf("%s: %q is not a whole number", name, value)
	case errors.As(cause, &list):
		return fmt.Errorf("%s: %q is not a list: its quotation marks do not match", name, value)
	}
	return fmt.Errorf("%s: %w", name, cause)
}
