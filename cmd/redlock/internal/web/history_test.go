package web_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	"github.com/quorumlock/quorumlock/redlock"
)

// board is what the nodes hold under one name, a character for each node: a letter is a token, "." is nothing, and "-" is a
// node that does not answer. A node that has not listed all is a capital letter or "~". "!" is nothing, on a server that was
// restarted.
type board struct {
	mu    sync.Mutex
	nodes string
	ttl   time.Duration
	cut   bool // the listing is truncated
}

// overBoard serves a page over a board, with the clock of a bubble.
func overBoard(t *testing.T, change func(*web.Config)) (*board, *listings) {
	b := &board{ttl: time.Hour}
	return b, overListings(t, func(c *web.Config) {
		c.Servers = played(5, func(i int) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.nodes) <= i || b.nodes[i] != '-'
		}, func() string { return "" })
		c.List = func(context.Context) (*survey.Listing, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.listing()
		}
		if change != nil {
			change(c)
		}
	})
}

func (b *board) listing() (*survey.Listing, error) {
	listing := &survey.Listing{Need: len(b.nodes)/2 + 1, Nodes: make([]survey.NodeReport, len(b.nodes)), Truncated: b.cut}
	lock := survey.Lock{Name: "name"}
	for i, r := range b.nodes {
		listing.Nodes[i].Process = "first"
		if r == '!' {
			listing.Nodes[i].Process = "second"
		}
		if r == '-' || r == '~' || unicode.IsUpper(r) {
			listing.Nodes[i].Err = errors.New("no answer")
		}
		if unicode.IsLetter(r) {
			lock.Views = append(lock.Views, survey.View{Node: i, Kind: redlock.KindExclusive, Token: string(unicode.ToLower(r)), TTL: b.ttl})
		}
	}
	if len(lock.Views) > 0 {
		listing.Judge(&lock)
		listing.Locks = []survey.Lock{lock}
	}
	if listing.Answered() < listing.Need {
		return listing, redlock.ErrNoQuorum
	}
	return listing, nil
}

// show has the page look at what the nodes hold. "away" is an hour without anybody at the page, "cut" in front means that
// the listing is truncated, and "soon" that the lock ends within half a second.
func (b *board) show(l *listings, step string) {
	if step == "away" {
		<-time.After(time.Hour)
		return
	}
	b.mu.Lock()
	words := strings.Fields(step)
	b.nodes, b.ttl, b.cut = words[len(words)-1], time.Hour, words[0] == "cut"
	if words[0] == "soon" {
		b.ttl = time.Second / 2
	}
	b.mu.Unlock()
	l.watch(4*time.Second, time.Second)
}

// The danger: a lock that looks freed, since a node has gone away that holds it.
func TestHistory_SaysNothingThatItCannotKnow(t *testing.T) {
	for about, test := range map[string]struct {
		steps []string
		want  string
	}{
		"a lock is freed":                        {[]string{".....", "aaaaa", "....."}, "○ freed was a ● taken a"},
		"a lock expires":                         {[]string{".....", "soon aaaaa", "....."}, "◌ expired was a ● taken a"},
		"freed on the nodes that answer":         {[]string{".....", "aaa--", "...--"}, "○ freed was a ● taken a"},
		"expired on the nodes that answer":       {[]string{".....", "soon aaa--", "...--"}, "◌ expired was a ● taken a"},
		"a bare majority goes on":                {[]string{"aaaaa", "aaa--", "--aaa", "aaaaa"}, ""},
		"the bare majority is another":           {[]string{"aaa..", "aaa--", "--a..", "aaa.."}, ""},
		"two of the three that hold it are away": {[]string{"aaa..", "--a..", "aaa.."}, ""},
		"all that hold it are away":              {[]string{"aaa..", "---..", "aaa.."}, ""},
		"it is freed while they are away":        {[]string{"aaa..", "---..", "....."}, "○ found freed was a"},
		"it may have been renewed meanwhile":     {[]string{"soon aaa..", "---..", "....."}, "○ found ended was a"},
		"the rest of it is on nodes that are away": {[]string{".....", "aaaaa", "...aa", "...--", "...aa"},
			"◐ no majority was a ● taken a"},
		"the rest is gone when they are back": {[]string{".....", "aaaaa", "...aa", "...--", "....."},
			"○ found freed was a ◐ no majority was a ● taken a"},
		"the rest has ended when they are back": {[]string{".....", "aaaaa", "soon ...aa", "...--", "....."},
			"○ found ended was a ◐ no majority was a ● taken a"},
		"a rest that nobody has held goes away": {[]string{".....", "....a", "....-"}, "◐ no majority"},
		"it is freed as a node goes away":       {[]string{".....", "aaaaa", "....-"}, "○ ended was a ● taken a"},
		"an attempt goes away with its node":    {[]string{"....a", "....-"}, "◐ no majority"},
		"a node lists a part":                   {[]string{"aaaaa", "aaa~~", "aaaAA", "aaaaa"}, ""},
		"a node lists a part, without the lock": {[]string{"...aa", "...~~", "...aa"}, "◐ no majority"},
		"too few list all":                      {[]string{"aaaaa", "..~~~", "aaaaa"}, ""},
		"too few list all of what they hold":    {[]string{"aaaaa", "AAAAA", "aaaaa"}, ""},
		"the servers have forgotten it":         {[]string{".....", "aaaaa", "!!!!!"}, "○ ended was a ● taken a"},
		"one of them may have forgotten it":     {[]string{".....", "aaa..", "!...."}, "○ ended was a ● taken a"},
		"servers that did not have it restart":  {[]string{".....", "aaa..", "...!!"}, "○ freed was a ● taken a"},
		"they restart in an outage":             {[]string{"aaaaa", "-----", "!!!!!"}, "○ found ended was a"},
		"freed while too few answered":          {[]string{"aaaaa", "---..", "....."}, "○ found freed was a"},
		"ended while too few answered":          {[]string{"soon aaaaa", "---..", "....."}, "○ found ended was a"},
		"ended while it was unknown":            {[]string{"soon aaaaa", "..a--", "....."}, "○ found ended was a"},
		"freed while it was unknown":            {[]string{"aaaaa", "..a--", "....."}, "○ found freed was a"},
		"it was never known to be held":         {[]string{"..a--", "...--", "....."}, ""},
		"it was left out":                       {[]string{".....", "aaaaa", "cut .....", "aaaaa"}, "● taken a"},
		"it was left out, and is gone":          {[]string{".....", "aaaaa", "cut .....", "....."}, "● taken a"},
		"freed in a complete listing":           {[]string{"cut aaaaa", "aaaaa", "....."}, "○ freed was a"},
		"it was found when all were listed":     {[]string{"cut .....", "aaaaa", "....."}, "○ freed was a"},
		"freed after nobody watched":            {[]string{".....", "aaaaa", "away", "....."}, "○ found freed was a (gap) ● taken a"},
		"ended after nobody watched":            {[]string{".....", "soon aaaaa", "away", "....."}, "○ found ended was a (gap) ● taken a"},
		"held on after nobody watched":          {[]string{".....", "aaaaa", "away", "aaaaa", "....."}, "○ freed was a (gap) ● taken a"},
		"changed hands while nobody watched":    {[]string{".....", "aaaaa", "away", "bbbbb"}, "⇄ found in other hands now b (gap) ● taken a"},
		"taken while nobody watched":            {[]string{".....", "away", "aaaaa"}, "● found held a (gap)"},
		"taken while too few answered":          {[]string{".....", "---..", "aaaaa"}, "● found held a"},
		"taken while it was unknown":            {[]string{".....", "..a--", "aaaaa"}, "● found held a"},
		"taken after it was unknown":            {[]string{".....", "..a--", ".....", "aaaaa"}, "● taken a"},
		"taken after somebody watched again":    {[]string{".....", "away", ".....", "aaaaa"}, "● taken a (gap)"},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := overBoard(t, nil)
				for _, step := range test.steps {
					b.show(l, step)
				}
				text := strings.ReplaceAll(l.history("name"), "· not watched from to , as no page was open", "(gap)")
				text = strings.TrimSpace(strings.TrimSuffix(text, "· watched from here on"))
				require.Equal(t, test.want, text)
			})
		})
	}
}

// The danger: a lock that is said to be held for a second, as the nodes that hold it were away before.
func TestHistory_SaysSinceWhenALockIsHeldAtLeast(t *testing.T) {
	for about, test := range map[string]struct {
		steps []string
		want  string
	}{
		"it was seen to be taken":          {[]string{".....", "aaaaa"}, "^[1-4] s$"},
		"it was there before":              {[]string{"aaaaa"}, "^≥ [1-4] s$"},
		"it was unknown before":            {[]string{".....", "..a--", "aaaaa"}, "^≥ [1-4] s$"},
		"it was free after it was unknown": {[]string{".....", "..a--", "..b..", "aaaaa"}, "^[1-4] s$"},
		"its holder was unknown before":    {[]string{".....", "aaaaa", "..b--", "bbbbb"}, "^≥ [1-4] s$"},
		"it was known before":              {[]string{".....", "aaaaa", "..a--", "aaaaa"}, "^(9|1[0-3]) s$"},
		"too few answered before":          {[]string{".....", "---..", "aaaaa"}, "^≥ [1-4] s$"},
		"too few answered meanwhile":       {[]string{".....", "aaaaa", "---..", "aaaaa"}, "^(9|1[0-3]) s$"},
		"too few answer":                   {[]string{".....", "aaaaa", "aa---", "aa---"}, "^≥ [1-4] s$"},
		"it is unknown":                    {[]string{".....", "aaaaa", "..a--"}, "^≥ [1-4] s$"},
		"it is unknown who of two":         {[]string{".....", "aaaaa", "ab~~~"}, "^not known$"},
		"it is unknown, and another":       {[]string{".....", "aaaaa", "..b--"}, "^not known$"},
		"it was never known":               {[]string{"..a--"}, "^not known$"},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := overBoard(t, nil)
				for _, step := range test.steps {
					b.show(l, step)
				}
				_, page := l.get("/")
				require.Regexp(t, test.want, heldFor(t, page, "name"))
			})
		})
	}
}

// The danger: all that has changed meanwhile seems to have changed when somebody looked again.
func TestHistory_SaysAmongTheChangesWhenNobodyWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := overBoard(t, nil)
		changes := func(steps ...string) string {
			for _, step := range steps {
				b.show(l, step)
			}
			_, page := l.get("/")
			_, changes, _ := strings.Cut(page, `<ol class="changes">`)
			changes, _, _ = strings.Cut(changes, "</ol>")
			require.NotContains(t, changes, "watched from here on")
			return changes
		}
		require.Empty(t, changes(".....", "away", "....."), "nothing has changed")
		require.Regexp(t, `(?s)^\s*<li class="taken">.*<b>found held</b>.*not watched from .* to `, changes("away", "aaaaa"))
		require.Equal(t, 1, strings.Count(changes("aaaaa"), "not watched from"), "the one before is of no interest")
		require.Regexp(t, `(?s)found in other hands.*not watched from .* to .*found held.*not watched from .* to `, changes("away", "bbbbb"))
	})
}

// The danger: what a job has done is pushed out by hundreds of locks that are taken at once.
func TestHistory_HasOneLineForManyEqualChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		changes := func(page string) (lines []string) {
			_, page, _ = strings.Cut(page, `<ol class="changes">`)
			page, _, _ = strings.Cut(page, "</ol>")
			for _, line := range strings.Split(page, "</li>") {
				line = regexp.MustCompile(`\d\d:\d\d:\d\d`).ReplaceAllString(tags.ReplaceAllString(line, " "), "")
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
			return lines[:len(lines)-1]
		}
		orders := func(n int) (locks []survey.Lock) {
			for i := range n {
				locks = append(locks, held(fmt.Sprintf("orders/%04d", i+1), fmt.Sprintf("t%d", i), time.Hour))
			}
			return locks
		}
		l.hold()
		l.hold(held("nightly", "job", time.Hour))
		few := orders(3)
		require.Equal(t,
			[]string{"○ nightly freed was job", "● orders/0003 taken t2", "● orders/0002 taken t1", "● orders/0001 taken t0", "● nightly taken job"},
			changes(l.hold(few...)), "few have a line each")
		page := l.hold(orders(500)...)
		require.Equal(t,
			[]string{"● orders/… taken 500 times since , last orders/0500 t499", "○ nightly freed was job", "● nightly taken job"}, changes(page))
		require.Contains(t, page, `href="/?q=orders%2F"`)
		l.hold()
		require.Regexp(t, `^○ orders/… freed 500 times since , last orders/0\d+ was t\d+$`, changes(l.hold())[0])
		<-time.After(time.Minute)
		require.Equal(t, "● orders/0001 taken t0", changes(l.hold(orders(1)...))[0], "a minute later")
		for range 5 {
			l.hold()
			page = l.hold(held("nightly", "job", time.Hour))
		}
		require.Equal(t, "● nightly taken 5 times since , last job", changes(page)[0], "one name")
	})
}

func TestSeries_IsWhatANameHasBeforeItsFirstNumber(t *testing.T) {
	for name, want := range map[string]string{
		"orders/4711": "orders/", "job17": "job", "tenants/acme/reindex": "tenants/acme/reindex", "user/f47ac10b": "user/", "db-3/backup": "db-",
		"4711": "", "größe-1": "größe-", "": "",
	} {
		require.Equal(t, want, web.Series(name), name)
	}
}
