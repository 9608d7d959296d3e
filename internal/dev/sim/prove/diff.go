package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/quorumlock/quorumlock/internal/dev/sim"
)

// digests returns a line with the digest of each of n seeds.
func digests(from, n uint64) (lines []string) {
	for seed := from; seed < from+n; seed++ {
		lines = append(lines, fmt.Sprint(seed, " ", sim.Digest(seed, 1)))
	}
	return lines
}

// older is the path of a prove that was built from another commit.
type older string

// lines runs it and returns what it prints.
func (o older) lines(args ...string) ([]string, error) {
	cmd := exec.Command(string(o), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), nil
}

var errDiffers = errors.New("it runs in another way there")

// diff prints the first difference between what happens in n schedules there and here.
func diff(there older, from, n uint64) error {
	found, err := there.difference(from, n)
	switch {
	case err != nil:
		return err
	case found != "":
		fmt.Println(found)
		return errDiffers
	}
	fmt.Printf("%d schedules from seed %d on: no difference\n", n, from)
	return nil
}

// difference returns the first line that is not the same there and here, of the first seed that has one, behind some lines before it;
// "" if there is none.
func (o older) difference(from, n uint64) (string, error) {
	was, err := o.lines("-digests", "-from", fmt.Sprint(from), "-seeds", fmt.Sprint(n))
	if err != nil {
		return "", err
	}
	i := firstOther(was, digests(from, n))
	if i == int(n) {
		return "", nil
	}
	seed := from + uint64(i)
	if was, err = o.lines("-record", fmt.Sprint(seed)); err != nil {
		return "", err
	}
	is := sim.Record(sim.NewPlan(seed))
	at := firstOther(was, is)
	text := fmt.Sprintf("seed %d differs in line %d:\n", seed, at+1)
	for _, line := range is[max(0, at-context):at] {
		text += "  " + line + "\n"
	}
	return text + "- " + lineOf(was, at) + "\n+ " + lineOf(is, at), nil
}

// context is how many lines are shown before the one that differs.
const context = 5

// firstOther returns the index from which on two lists are not the same: the length of both if they are.
func firstOther(a, b []string) (i int) {
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return i
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the end)"
}
