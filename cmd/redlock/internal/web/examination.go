package web

import (
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
)

// examinationView is what the doctor has found.
type examinationView struct {
	Running, Done bool
	At, Fault     string
	Checks        int
	Unexamined    int
	Away          []string // nodes that do not answer now
	Findings      []doctor.Group
}

// examine shows what the doctor has found.
func examine(e examination) examinationView {
	v := examinationView{Running: e.Running, Done: !e.At.IsZero(), Fault: errorText(e.Err)}
	if v.Done {
		v.At = clock(e.At)
	}
	if e.Report == nil {
		return v
	}
	v.Checks, v.Unexamined, v.Findings = len(e.Report.Checks), len(e.Report.Unexamined), e.Report.Groups()
	return v
}
