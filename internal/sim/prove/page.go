package main

import (
	_ "embed" // the page's text
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/quorumlock/quorumlock/internal/sim"
)

// proof is what docs/proof.md is made of.
type proof struct {
	Date    string
	Seeds   uint64
	Took    time.Duration
	Bound   uint64
	Mutants []result
}

type result struct {
	mutant
	*sim.Found
}

//go:embed proof.md.tmpl
var page string

func (p proof) write(root string) error {
	tmpl, err := template.New("proof.md").Funcs(template.FuncMap{"lines": func(s []string) string { return strings.Join(s, "\n") }}).Parse(page)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(root, "docs", "proof.md"))
	if err != nil {
		return err
	}
	if err := tmpl.Execute(f, p); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
