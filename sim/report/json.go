package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/tritier/tritier/sim"
)

// JSON writes {"results": [...]}, one object a result, in order. The fields
// are those of sim.Result. Errors are those of w, or of a result that JSON
// cannot hold.
func (r *Report) JSON(w io.Writer) error {
	results := r.Results
	if results == nil {
		results = []sim.Result{} // an empty list, not null
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // for programs, not for pages: "->" stays readable
	if err := e.Encode(struct {
		Results []sim.Result `json:"results"`
	}{results}); err != nil {
		return fmt.Errorf("report: JSON: %w", err)
	}
	return nil
}
