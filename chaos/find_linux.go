package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/check"
	"github.com/quorumlock/quorumlock/chaos/internal/nemesis"
	"github.com/quorumlock/quorumlock/chaos/internal/run"
	"github.com/quorumlock/quorumlock/chaos/internal/weaken"
)

// findBroken breaks assumptions, and fails if that is not found.
func (f flags) findBroken(ctx context.Context) error {
	var missed []string
	known := []string{"all"}
	for i, b := range nemesis.Breaks() {
		known = append(known, b.What)
		if f.breaks != "all" && f.breaks != b.What {
			continue
		}
		c, err := f.config(fmt.Sprintf("break-%d", i))
		if err != nil {
			return err
		}
		c.Break = &b
		c.Durable = b.Durable
		var all run.Report
		begun := time.Now()
		err = chapterOf(ctx, c, func() bool {
			return time.Since(begun) < f.duration && !slices.ContainsFunc(all.Violations, check.Violation.OfHolders)
		}, &all)
		if err != nil {
			return err
		}
		two := slices.IndexFunc(all.Violations, check.Violation.OfHolders)
		if two < 0 {
			missed = append(missed, b.What)
			continue
		}
		fmt.Printf("FOUND %s in %v: %s\n", b.What, time.Since(begun).Round(time.Second), all.Violations[two].Promise)
	}
	if missed != nil {
		return fmt.Errorf("not found in %v: %s", f.duration, strings.Join(missed, ", "))
	}
	return unknown(f.breaks, known)
}

// findWeakened builds and runs programs with weakened rules, and fails if one is not found.
func (f flags) findWeakened(ctx context.Context) error {
	var missed []string
	known := []string{"all"}
	for _, m := range weaken.Rules() {
		known = append(known, m.Name)
		if f.weaken != "all" && f.weaken != m.Name {
			continue
		}
		program, err := weaken.Build(ctx, m, f.root, f.out)
		if err != nil {
			return err
		}
		log, err := os.Create(filepath.Join(filepath.Dir(program), "log"))
		if err != nil {
			return err
		}
		begun := time.Now()
		cmd := exec.CommandContext(ctx, program, "-find", "-duration", f.duration.String(), "-episode", f.episode.String(),
			"-seed", strconv.FormatUint(f.seed, 10), "-out", filepath.Dir(program), "-kinds", f.kinds, "-faults", f.faults, "-nodes", f.nodes)
		cmd.Stdout, cmd.Stderr = log, log
		err = cmd.Run()
		_ = log.Close()
		if err != nil {
			fmt.Printf("NOT FOUND %s: %v, see %s\n", m.Name, err, log.Name())
			missed = append(missed, m.Name)
			continue
		}
		fmt.Printf("FOUND %s in %v, see %s\n", m.Name, time.Since(begun).Round(time.Second), log.Name())
	}
	if missed != nil {
		return fmt.Errorf("not found in %v: %s", f.duration, strings.Join(missed, ", "))
	}
	return unknown(f.weaken, known)
}
