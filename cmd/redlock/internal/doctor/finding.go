// Package doctor examines whether servers are set up as docs/operations.md asks for.
package doctor

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	Warning Severity = "warning" // locking works, but worse than it could or not in every situation
	Fault   Severity = "fault"   // locking does not work, or is not safe
)

// Finding is something that is not as it should be.
type Finding struct {
	Check    string   `json:"check"` // its name, which is stable: for example "eviction"
	Severity Severity `json:"severity"`
	Node     string   `json:"node,omitempty"` // its address; "" if the finding is about the set of nodes
	What     string   `json:"what"`
	Why      string   `json:"why"`  // it matters
	Mend     string   `json:"mend"` // the command or setting that does
	Docs     string   `json:"docs"` // a link into the docs
}

// Report is what an examination has come to.
type Report struct {
	Nodes    []string  `json:"nodes"`    // their addresses
	Checks   []string  `json:"checks"`   // the names of all checks that were made
	Findings []Finding `json:"findings"` // the faults first; within them in the order of checks and nodes
}
