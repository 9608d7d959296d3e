package doctor

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// keyChecks look at the keys under the prefix.
var keyChecks = []check{
	{name: "keys-no-ttl", docs: failuresDocs, need: scanned, node: keysWithoutTTL,
		why: "Nobody gets the lock of such a name until somebody deletes the key (ErrNoExpiry)."},
	{name: "keys-foreign", docs: failuresDocs, need: scanned, node: foreignKeys,
		why: "Data under the name of a lock: it stays taken for as long as the data is there (ErrForeign)."},
	{name: "keys-long-ttl", docs: "operations.md#persistence-and-restarts", need: scanned, node: longKeys,
		when: func(o *Options) bool { return o.RestartGuard > 0 },
		why:  "The restart guard must not be below the longest TTL of any program: a node that forgets such a lock grants it again before the lock has ended."},
	{name: "keys-other-list", docs: "operations.md#changing-the-set-of-nodes", need: scanned, set: (*examination).otherList,
		why: "A program with another list of nodes can have a majority of its own: two hold the same lock."},
}

// key is what a server holds under a name.
type key struct {
	name  string
	value string        // of a string; shortened if it is too long for a token
	ttl   time.Duration // below zero means none
	kind  string        // how it differs from a lock; "" if it does not
}

// scan is what the keys of a server look like.
type scan struct {
	missing string // why they are not known
	locks   []key
	foreign []key
	seen    int
}

// scanPages bounds how many pages of keys are asked for, and pageSize how many keys the server goes through for each.
const (
	scanPages = 2000
	pageSize  = 250
	scanning  = 3 * time.Second
)

// scan reads the keys under the prefix, in pages.
func (f *facts) scan(ctx context.Context, c *conn, o *Options) {
	defer func() { c.err = nil }() // the connection is lost, and nothing else
	s := &f.keys
	if o.Prefix == "" { // the keys may be anybody's, of any size
		s.missing = "a prefix that only locks have: --key-prefix"
		return
	}
	cursor := "0"
	end := time.Now().Add(scanning)
	for page := 0; ; page++ {
		if page == scanPages || s.seen >= o.Keys || time.Now().After(end) {
			s.missing = fmt.Sprintf("more time: the first %d keys were looked at", s.seen)
			return
		}
		reply, refusal := c.do(ctx, "SCAN", cursor, "MATCH", survey.Literally(f.key(o.Prefix))+"*", "COUNT", fmt.Sprint(pageSize))
		switch {
		case c.err != nil:
			s.missing = "keys that fit in a reply: " + printable(c.err.Error())
			return
		case refusal != nil && refusal.Code == "NOPERM":
			s.missing = "the right +scan"
			return
		case refusal != nil:
			s.missing = "SCAN, which the server answers with " + quoted(refusal.Message)
			return
		}
		next, names, err := survey.ParsePage(reply)
		if err != nil {
			s.missing = "SCAN, whose reply is none of Redis"
			return
		}
		if f.read(ctx, c, o, names); c.err != nil {
			s.missing = "replies to EVAL: " + printable(c.err.Error())
			return
		}
		if cursor = next; cursor == "" {
			s.missing = f.slotMissing(ctx, c, o)
			return
		}
	}
}

// read looks at keys, with the script that Inspect uses.
func (f *facts) read(ctx context.Context, c *conn, o *Options, names []string) {
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, f.key(o.Prefix)) })
	for i := range names {
		names[i] = names[i][len(f.to.Tag):]
	}
	names = slices.DeleteFunc(names, form.Reserved)
	f.keys.seen += len(names)
	for batch := range slices.Chunk(names, 100) {
		for i, reply := range c.all(ctx, f.observations(batch)...) {
			k, is := keyOf(batch[i], reply)
			switch {
			case !is:
			case k.kind == "":
				f.keys.locks = append(f.keys.locks, k)
			case len(f.keys.foreign) < maxForeign:
				k.kind = f.kind(ctx, c, k)
				f.keys.foreign = append(f.keys.foreign, k)
			}
		}
	}
}

// slotMissing returns why keys may have been left out: the slot of the node is on another server by now, or a part of it.
func (f *facts) slotMissing(ctx context.Context, c *conn, o *Options) string {
	if !f.inCluster() {
		return ""
	}
	replies := c.all(ctx, client.AskSlot(f.to, o.Prefix)...)
	if err := cmp.Or(c.err, client.ReadSlot(replies)); err != nil {
		return "the whole slot of the node: " + printable(err.Error())
	}
	return ""
}

// observations returns the commands that read keys, with arguments of the script.
func (f *facts) observations(names []string, args ...string) (commands [][]string) {
	for _, name := range names {
		commands = append(commands, append([]string{"EVAL", form.Scripts["observe"].Source, "1", f.key(name)}, args...))
	}
	return commands
}

// keyOf reads the reply to an observation. It reports false if the key is gone, or the reply is of no use.
func keyOf(name string, reply any) (key, bool) {
	if refusal, is := reply.(*nodeerr.ServerError); is {
		return key{name: name, kind: "not a string"}, refusal.Code == "WRONGTYPE"
	}
	values, err := redis.Values(reply, nil)
	if err != nil || len(values) != 2 {
		return key{}, false
	}
	value, err := redis.String(values[0], nil)
	left, err2 := redis.Int64(values[1], nil)
	if err != nil || err2 != nil || left < -1 || left > int64(1<<62/time.Millisecond) {
		return key{}, false
	}
	k := key{name: name, value: value, ttl: time.Duration(left) * time.Millisecond}
	if len(value) > wire.MaxToken {
		k.kind = "longer than a token"
	}
	return k, true
}

// maxForeign is how many keys that cannot be locks are looked at more closely.
const maxForeign = 100

// redisson matches the field of the hash that is a lock of Redisson: who holds it.
var redisson = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+$`)

// kind returns more about a key that cannot be a lock, as far as the user may ask.
func (f *facts) kind(ctx context.Context, c *conn, k key) string {
	reply, _ := c.do(ctx, "TYPE", f.key(k.name))
	if is, _ := reply.(string); is != "hash" {
		return k.kind
	}
	reply, _ = c.do(ctx, "HLEN", f.key(k.name))
	if size, _ := reply.(int64); size != 1 {
		return k.kind
	}
	reply, _ = c.do(ctx, "HKEYS", f.key(k.name))
	if fields, err := redis.Strings(reply, nil); err == nil && len(fields) == 1 && redisson.MatchString(fields[0]) {
		return "a lock of Redisson"
	}
	return k.kind
}

// otherTokens are the forms of the tokens of other clients, and who uses them.
var otherTokens = []struct {
	form *regexp.Regexp
	of   string
}{
	{regexp.MustCompile(`^[A-Za-z0-9+/]{22}==$`), "a token like those of redsync"},
	{regexp.MustCompile(`^[0-9a-fA-F]{32}$`), "a token like those of redis-py and node-redlock"},
	{regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`), "a UUID"},
}

// formOf returns how a value looks that may be a token; "" if it does not look like one.
func formOf(value string) string {
	if held, _ := token.Split(value, true); token.Owner(held) != "" {
		return "a token of this library"
	}
	for _, other := range otherTokens {
		if other.form.MatchString(value) {
			return other.of
		}
	}
	return ""
}

func looksLikeToken(value string) bool { return formOf(value) != "" }

// shownKeys is how many keys a finding names.
const shownKeys = 5

// found makes a finding about keys, if there are any. It names them with what is special about each.
func found(keys []key, what string, about func(key) string, fix string) []Finding {
	var names []string
	for _, k := range keys {
		names = append(names, quoted(k.name)+about(k))
	}
	return warningIf(len(keys) > 0, fmt.Sprintf("%s %s: %s", display.Counted(len(keys), "key"), what, several(names, shownKeys)), fix)
}

// locksWith returns the locks of a server that have a TTL of some kind.
func (f *facts) locksWith(kind func(ttl time.Duration) bool) []key {
	return slices.DeleteFunc(slices.Clone(f.keys.locks), func(k key) bool { return !kind(k.ttl) })
}

func scanned(f *facts) string { return f.keys.missing }

func keysWithoutTTL(_ *examination, f *facts) []Finding {
	forever := f.locksWith(func(ttl time.Duration) bool { return ttl < 0 })
	return found(forever, "without a TTL", func(key) string { return "" },
		"redlock unlock NAME --force, when you know that nobody holds the lock; or redlock.WithHeal in the programs")
}

func foreignKeys(_ *examination, f *facts) []Finding {
	return found(f.keys.foreign, "under the prefix that cannot be a lock", func(k key) string { return " (" + k.kind + ")" },
		"choose a prefix (redlock.WithKeyPrefix) that nothing else uses, or remove the data")
}

func longKeys(x *examination, f *facts) []Finding {
	long := f.locksWith(func(ttl time.Duration) bool { return ttl > x.RestartGuard })
	return found(long, fmt.Sprintf("with a TTL above the restart guard of %s", x.RestartGuard), func(k key) string {
		about := " (" + k.ttl.Round(time.Second).String()
		if form := formOf(k.value); form != "" {
			about += ", " + form
		}
		return about + ")"
	}, "lengthen "+restartGuards+" or shorten that TTL in the program that sets it")
}
