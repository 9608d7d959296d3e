package wire_test

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by it
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
)

var update = flag.Bool("update", false, "write strings.txt")

const head = `# What is sent to servers, and by way of them to other processes: processes of different versions have to agree on it.
# A test compares it. After a change that is meant: go test ./internal/wire -run TestStrings -update
`

func TestStrings_AreThoseOfTheFile(t *testing.T) {
	now := head
	section := func(name string, lines []string) { now += "\n" + name + "\n  " + strings.Join(lines, "\n  ") + "\n" }
	section("scripts, and the SHA-1 of their sources", scripts())
	section("tokens", tokens(t))
	section("exclusive locks", commands(form.Exclusive{}))
	section("locks with fencing tokens", append(commands(&form.Fenced{Keep: form.DefaultKeep}), fenced()...))
	section("shared locks", shared(form.Shared{Kind: form.KindShared}))
	section("slots", shared(form.Shared{Kind: form.KindSlot, Slots: 3}))
	section("processes that wait for the locks of others that share the key: a writer, one for a shared lock, one of two slots", []string{
		"wait           " + told(form.Want("key", "process", form.Demand{})),
		"wait           " + told(form.Want("key", "process", form.Demand{Kind: form.KindShared})),
		"wait           " + told(form.Want("key", "process", form.Demand{Kind: form.KindSlot, Limit: 2})),
		"wait no more   " + told(form.Unwant("key", "process", form.Demand{})),
	})
	section("acquires of a connection that has not granted one", first())
	section("probes, which take nothing", []string{told(form.Probe("prefix-", "id", false)), told(form.Probe("prefix-", "id", true))})
	section("the stamp of a node, with a restart guard", stamps())
	section("a connection: a greeting, the next one when answers are missing, and the end", greetings(t))
	section("a call that waits for the lock of another process", waits(t))
	section("other messages to processes: to the next that waits, and to a holder that may wait for who tells it", messages(t))

	path := filepath.Join("testdata", "strings.txt")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(now), 0o644))
	}
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	before, after := strings.Split(string(file), "\n"), strings.Split(now, "\n")
	if changed := append(only(before, after, "- "), only(after, before, "+ ")...); string(file) != now {
		t.Errorf("what goes over the wire is not that of %s, which says what to do:\n%s", path, strings.Join(changed, "\n"))
	}
}

// only returns the lines that others do not have.
func only(lines, others []string, sign string) (found []string) {
	for _, line := range lines {
		if !slices.Contains(others, line) {
			found = append(found, sign+line)
		}
	}
	return found
}

func scripts() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(form.Scripts)) {
		lines = append(lines, fmt.Sprintf("%-24s %x", name, sha1.Sum([]byte(form.Scripts[name].Source))))
	}
	return lines
}

// stamps are the commands of a guard: for a server, another one in its place, one that has a first replica, and one that was stamped long ago.
func stamps() (lines []string) {
	server, now := wire.Identity{Process: "run_id", History: "replid"}, time.Unix(1000, 0)
	for _, holds := range []string{server.Stamp(), "other:replid", "run_id:other"} {
		g := wire.Guard{MaxTTL: time.Minute}
		set := g.Connected(now, server)
		next := g.Stamped(now, set, &wire.Reply{Answer: quorum.Yes, Value: holds, TTL: 29 * 24 * time.Hour})
		for _, set := range [][]string{set, next} {
			cmd := wire.Stamp("host:6379", set)
			line := strings.ReplaceAll(strings.Join(cmd.Words(nil, cmd.Script, true), " "), "\n", "; ")
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// tokens tells of what tokens are made.
func tokens(t *testing.T) []string {
	owner, random := map[rune]bool{}, map[rune]bool{}
	for range 1000 {
		parts := strings.Split(token.Random(token.NewOwner()), ".")
		require.Len(t, parts, 2)
		for i, of := range []map[rune]bool{owner, random} {
			require.Len(t, parts[i], []int{8, 28}[i])
			for _, c := range parts[i] {
				of[c] = true
			}
		}
	}
	of := func(n int, set map[rune]bool) string {
		return fmt.Sprintf("%d of %s", n, string(slices.Sorted(maps.Keys(set))))
	}
	return []string{
		"owner          " + of(8, owner),
		"random         " + of(28, random),
		"token          owner.random",
		"with metadata  " + token.WithMetadata("owner.random", "metadata"),
		"and a number   " + token.Join("owner.random:metadata", 7),
	}
}

var (
	lockID = form.ID{Key: "key", Token: "OWNERAAA.RandomRandomRandomRandomRand"}
	other  = form.ID{Key: "other", Token: lockID.Token}
	ask    = form.Ask{TTL: 5 * time.Second, Time: 1_700_000_000_000_000}
)

// made returns what a function makes of a command.
func made(make func(c *wire.Command)) string {
	var c wire.Command
	make(&c)
	return told(&c)
}

// commands are those that each form has.
func commands(f form.Form) []string {
	m := lockID
	if _, numbered := f.(form.Numbered); numbered {
		m.Number = 7
	}
	lines := []string{
		"acquire        " + made(func(c *wire.Command) { f.Acquire(c, m, ask) }),
		"extend         " + made(func(c *wire.Command) { f.Extend(c, m, 6*time.Second) }),
		"release        " + made(func(c *wire.Command) { f.Release(c, m, 0) }),
		"remove         " + made(func(c *wire.Command) {
			f.Remove(c, "key", form.Observation{Value: m.Token, Token: m.Token, Fence: m.Number})
		}),
		"observe        " + told(f.Observe("key")),
		"look           " + told(f.Look(m)),
		"of a master    " + told(f.ObserveMaster("key")),
		"heal           " + told(f.Heal("key", "value")),
	}
	if all, joint := f.(form.Joint); joint {
		lines = append(lines, "several        "+made(func(c *wire.Command) {
			all.AcquireAll(c, []form.ID{m, other}, []form.Ask{ask, ask})
		}))
	}
	return lines
}

// fenced are commands that only locks with fencing tokens have.
func fenced() []string {
	m, f := lockID, &form.Fenced{Keep: form.DefaultKeep}
	m.Number = 7
	acquire := func(keep time.Duration, a form.Ask) string {
		f := form.Fenced{Keep: keep}
		return made(func(c *wire.Command) { f.Acquire(c, m, a) })
	}
	advances, floor, block, both := ask, ask, ask, ask
	advances.Advance, floor.Floor, block.Block, both.Floor, both.Block = true, 8, 9, 8, 9
	var first, another, last wire.Command
	f.Acquire(&first, m, ask)
	f.Acquire(&another, other, block)
	f.Release(&last, m, 0)
	joined := first.Join.Words(first.Join.Script.Run(nil, false), []*wire.Command{&first, &another, &last})
	return []string{
		"keep           " + acquire(time.Hour, ask),
		"advance        " + acquire(form.DefaultKeep, advances),
		"floor          " + acquire(form.DefaultKeep, floor),
		"block          " + acquire(form.DefaultKeep, block),
		"both           " + acquire(form.DefaultKeep, both),
		"raise          " + made(func(c *wire.Command) { f.Raise(c, m, 5, 7) }),
		"no number      " + made(func(c *wire.Command) { f.Remove(c, "key", form.Observation{Value: m.Token, Token: m.Token}) }),
		"with floors    " + made(func(c *wire.Command) { f.AcquireAll(c, []form.ID{m, other}, []form.Ask{ask, floor}) }),
		"together       " + text(joined),
	}
}

// first are acquires by their proofs.
func first() (lines []string) {
	for _, f := range []form.Joint{form.Exclusive{}, &form.Fenced{Keep: form.DefaultKeep}} {
		var one, all wire.Command
		f.Acquire(&one, lockID, ask)
		f.AcquireAll(&all, []form.ID{lockID, other}, []form.Ask{ask, ask})
		for _, c := range []*wire.Command{&one, &all} {
			lines = append(lines, text(c.Words(nil, c.Proof, false)))
		}
	}
	return lines
}

// shared are the commands of a lock that several have.
func shared(f form.Shared) []string {
	m := lockID
	m.Number = 2
	numbered := f.HasSlots()
	lines := append(commands(f),
		"sharers        "+told(f.Sharers("key", 256)),
		"mark only      "+made(func(c *wire.Command) { f.Remove(c, "key", form.Observation{}) }),
	)
	if numbered {
		lines = append(lines,
			"from a slot    "+made(func(c *wire.Command) { f.Acquire(c, m, form.Ask{TTL: ask.TTL, Start: 2}) }),
			"extend in it   "+made(func(c *wire.Command) { f.Extend(c, m, 6*time.Second) }),
			"take it back   "+made(func(c *wire.Command) { f.TakeBack(c, m, 2) }))
	}
	return lines
}

// told returns the words of a command, with the hash of its script.
func told(c *wire.Command) string { return text(c.Words(nil, c.Script, false)) }

var plain = regexp.MustCompile(`^[!-~]+$`)

// text puts words in a line. A script stands by its name.
func text(words []string) string {
	for i, word := range words {
		if !plain.MatchString(word) {
			words[i] = strconv.Quote(word)
		}
		for name, script := range form.Scripts {
			if word == script.Hash || word == script.Source {
				words[i] = "<" + name + ">"
			}
		}
	}
	return strings.ReplaceAll(strings.Join(words, " "), lockID.Token, "<token>")
}
