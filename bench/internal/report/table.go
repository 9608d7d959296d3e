package report

import (
	"fmt"
	"strings"
)

// table has a row for each case.
type table struct {
	rows    []Case
	columns []column
}

// column shows one thing about each row's case.
type column struct {
	head string
	cell func(*Results, Case) (string, error)
}

// markdown returns the table, or what is missing for it.
func (t table) markdown(r *Results) (string, error) {
	var b strings.Builder
	for _, c := range t.columns {
		fmt.Fprintf(&b, "| %s ", c.head)
	}
	b.WriteString("|\n" + strings.Repeat("|---", len(t.columns)) + "|\n")
	for _, row := range t.rows {
		for _, c := range t.columns {
			cell, err := c.cell(r, row)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "| %s ", cell)
		}
		b.WriteString("|\n")
	}
	return b.String(), nil
}

// value shows what was measured, in the unit that the benchmark reports.
func value(head, unit string) column {
	return column{head, func(r *Results, c Case) (string, error) {
		values, err := r.Values(c, unit)
		if err != nil {
			return "", err
		}
		return sum(values).String(), nil
	}}
}

// ratio shows what was measured over that of another case.
func ratio(head, unit string, over func(Case) Case) column {
	return column{head, func(r *Results, c Case) (string, error) {
		ratios, err := r.Ratios(c, over(c), unit)
		if err != nil {
			return "", err
		}
		return sum(ratios).String(), nil
	}}
}

// variant shows what sets the cases of one workload apart.
func variant(head string) column {
	return column{head, func(_ *Results, c Case) (string, error) { return c.Variant, nil }}
}

var (
	subjects = column{"", func(_ *Results, c Case) (string, error) { return c.Subject, nil }}
	nodes    = column{"nodes", func(_ *Results, c Case) (string, error) { return fmt.Sprint(c.Nodes), nil }}
	failed   = value("failed", "failed/op")
	pauses   = column{"pause", func(_ *Results, c Case) (string, error) { return c.Pause, nil }}
	frozen   = column{"frozen", func(_ *Results, c Case) (string, error) { return fmt.Sprint(c.Frozen), nil }}
)

// as returns the same case with another subject.
func as(subject string) func(Case) Case {
	return func(c Case) Case { c.Subject = subject; return c }
}

// variantIs returns the same case of another variant.
func variantIs(variant string) func(Case) Case {
	return func(c Case) Case { c.Variant = variant; return c }
}

// healthy returns the same case without a frozen node.
func healthy(c Case) Case { c.Frozen = 0; return c }
