// Command draw writes the pictures of the documents:
//
//	draw [-to docs/pictures] [name.svg ...]
//
// It is run in the root of the module, and needs redis-server. It exits with 1 if a scenario does not show what its picture is for.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/pictures"
)

func main() {
	if pictures.Holder() {
		return
	}
	to := flag.String("to", filepath.Join("docs", "pictures"), "the directory to write to")
	flag.Parse()
	if err := draw(*to, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

// draw writes the pictures with these names, or all if there is none.
func draw(dir string, names []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range pictures.All() {
		if len(names) > 0 && !slices.Contains(names, p.File) {
			continue
		}
		t, err := p.Timeline(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", p.File, err)
		}
		svg, err := t.SVG()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, p.File), svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}
