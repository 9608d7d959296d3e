package main

import (
	"bytes"
	_ "embed" // the text of the page
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/quorumlock/quorumlock/internal/dev/mutation"
)

//go:embed proof.md.tmpl
var page string

var (
	pagePath = filepath.Join("docs", "proof.md")
	listPath = filepath.Join("docs", "proof", "mutations.txt")
)

// telling are the mutations that the page shows. The list has all.
var telling = []string{
	"majority-of-reachable", "no-drift", "lost-reply-is-no", "same-token", "release-without-compare", "recreated-is-yes",
	"no-expiry-tick", "slots-not-compared", "no-write-back", "guard-off",
}

// caught is a mutation that a schedule has caught.
type caught struct {
	mutation.Mutation
	Seed   string
	What   string // the promise that it broke
	output string
}

// proof is what a run has found.
type proof struct {
	Date         string
	Seeds, Bound uint64
	Took         time.Duration
	Caught       []caught
}

// Telling returns the mutations that the page shows.
func (p proof) Telling() (some []caught) {
	for _, name := range telling {
		some = append(some, p.Caught[slices.IndexFunc(p.Caught, func(c caught) bool { return c.Name == name })])
	}
	return some
}

// page returns the text of docs/proof.md.
func (p proof) page() ([]byte, error) {
	var text bytes.Buffer
	err := template.Must(template.New("proof.md").Parse(page)).Execute(&text, p)
	return text.Bytes(), err
}

const (
	ranLine  = "# %d schedules ran on %s, in %s. Each mutation was caught within %d.\n"
	headLine = "# mutation | weakened rule | breaks the promise | caught by schedule\n"
	between  = " | "
)

// list returns the text of docs/proof/mutations.txt.
func (p proof) list() []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, ranLine+headLine, p.Seeds, p.Date, p.Took, p.Bound)
	for _, c := range p.Caught {
		fmt.Fprintln(&text, strings.Join([]string{c.Name, c.Rule, c.What, c.Seed}, between))
	}
	return text.Bytes()
}

// parseList returns the proof whose list a text is.
func parseList(text string) (p proof, err error) {
	ran, lines, _ := strings.Cut(text, "\n")
	var took string
	ran = strings.Replace(ran, ",", " ,", 1) // for Sscanf, which reads words
	if _, err := fmt.Sscanf(ran, "# %d schedules ran on %s , in %s Each mutation was caught within %d.", &p.Seeds, &p.Date, &took, &p.Bound); err != nil {
		return p, fmt.Errorf("%s: %w", listPath, err)
	}
	if p.Took, err = time.ParseDuration(strings.TrimSuffix(took, ".")); err != nil {
		return p, err
	}
	for line := range strings.Lines(strings.TrimPrefix(lines, headLine)) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), between)
		if len(words) != 4 {
			return p, fmt.Errorf("%s: %q", listPath, line)
		}
		p.Caught = append(p.Caught, caught{Mutation: mutation.Mutation{Name: words[0], Rule: words[1]}, What: words[2], Seed: words[3]})
	}
	return p, nil
}

// writeAgain writes the page with the results of the list.
func writeAgain() error {
	list, err := os.ReadFile(listPath)
	if err != nil {
		return err
	}
	p, err := parseList(string(list))
	if err != nil {
		return err
	}
	text, err := p.page()
	if err != nil {
		return err
	}
	return os.WriteFile(pagePath, text, 0o644)
}
