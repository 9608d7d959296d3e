package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	slots "github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// aclLines returns the rules of each ACL SETUSER line that docs/operations.md shows.
func aclLines(tb testing.TB) (lines [][]string) {
	tb.Helper()
	lines = testredis.LockerRules(tb, "..")
	require.Len(tb, lines, 6, "the bare minimum, identities, waiting, fencing, what some URLs and options need, and what several share")
	return lines
}

// aclClusterLines returns the same rules for the nodes of a cluster, as docs/failover.md says it.
func aclClusterLines(tb testing.TB) (lines [][]string) {
	tb.Helper()
	text := string(must(os.ReadFile("../docs/failover.md"))(tb))
	_, text, _ = strings.Cut(text, "\n## Redis Cluster\n")
	_, bullet, found := strings.Cut(text, "- **ACL rules**")
	require.True(tb, found)
	bullet, _, _ = strings.Cut(bullet, "\n- ")
	bullet, _, _ = strings.Cut(bullet, "\n\n")
	plain, tag, commands := aclLines(tb), "", []string(nil)
	for _, quoted := range regexp.MustCompile("`[^`]+`").FindAllString(bullet, -1) {
		for _, rule := range strings.Fields(strings.Trim(quoted, "`")) {
			switch rule[0] {
			case '{':
				tag = rule
			case '+':
				commands = append(commands, rule)
			default:
				require.Contains(tb, slices.Concat(plain...), strings.Replace(rule, tag, "", 1), "an example")
			}
		}
	}
	require.NotEmpty(tb, tag)
	for _, line := range plain {
		for i, rule := range line {
			if rule[0] == '~' || rule[0] == '&' {
				line[i] = rule[:1] + tag + rule[1:]
			}
		}
	}
	return append(plain, commands)
}

// restricted is a server with a user that may do what some rules say.
type restricted struct {
	*cluster
	patience time.Duration // for what comes by itself
	tag      string        // of all keys and channels: the server is a cluster, which makes one node
}

func newRestricted(t *testing.T, patience time.Duration, lines ...[]string) *restricted {
	return &restricted{permitted(t, onReal(t, 1), lines), patience, ""}
}

// newRestrictedCluster does the same with a server that has all slots of a cluster.
func newRestrictedCluster(t *testing.T, patience time.Duration, lines ...[]string) *restricted {
	c := onReal(t, 1, "--cluster-enabled", "yes")
	slot := []any{"ADDSLOTS"} // Redis 6.2 has no ADDSLOTSRANGE
	for i := range 16384 {
		slot = append(slot, i)
	}
	must(c.servers[0].Do("CLUSTER", slot...))(t)
	eventually(t, func() bool {
		return strings.Contains(fmt.Sprintf("%s", must(c.servers[0].Do("CLUSTER", "INFO"))(t)), "cluster_state:ok")
	}, "the cluster is ready")
	return &restricted{permitted(t, c, lines), patience, slots.New(nil).Node(0, 1).Tag()}
}

// permitted gives the user to a server.
func permitted(t *testing.T, c *cluster, lines [][]string) *cluster {
	for _, rules := range lines {
		args := []any{"SETUSER", "locker"}
		for _, rule := range rules {
			args = append(args, rule)
		}
		c.do(0, "ACL", args...)
	}
	return c.mayLeave()
}

// key returns what the server calls a key or a channel.
func (r *restricted) key(name string) string { return r.tag + name }

func (r *restricted) url() string {
	if r.tag != "" {
		return "redis+cluster://locker:secret@" + r.servers[0].Addr() + "/?nodes=1"
	}
	return "redis://locker:secret@" + r.servers[0].Addr()
}

// open opens the server as a node of the user. A guard of 0 is none.
func (r *restricted) open(guard time.Duration, opts ...pool.Option) []*pool.Node {
	return openGuarded(r.tb, []string{r.url()}, guard, opts...)
}

// as makes a Locker of the user.
func (r *restricted) as(opts ...redlock.Option) *redlock.Locker { return r.over(r.open(0), opts...) }

func (r *restricted) over(nodes []*pool.Node, opts ...redlock.Option) *redlock.Locker {
	return lockerOver(r.tb, nodes, append([]redlock.Option{redlock.WithKeyPrefix("lock:")}, opts...)...)
}

// soon waits for what has to come by itself.
func (r *restricted) soon(what string, happened func() bool) error {
	for begin := time.Now(); !happened(); pass(2 * time.Millisecond) {
		if time.Since(begin) > r.patience {
			return errors.New("it does not come: " + what)
		}
	}
	return nil
}

// done returns how many commands of a name the server has carried out.
func (r *restricted) done(name string) int {
	stat := strings.TrimPrefix(r.info(0, "commandstats", "cmdstat_"+name), "calls=")
	n, _ := strconv.Atoi(strings.SplitN(stat, ",", 2)[0])
	return n
}

// refusedTo says what the server has refused to the user.
func (r *restricted) refusedTo() (objects []string) {
	r.tb.Helper()
	entries := must(redis.Values(r.servers[0].Do("ACL", "LOG")))(r.tb)
	for _, entry := range entries {
		fields := must(redis.Values(entry, nil))(r.tb)
		for i := 0; i+1 < len(fields); i += 2 {
			if name, _ := redis.String(fields[i], nil); name == "object" {
				object, _ := redis.String(fields[i+1], nil)
				objects = append(objects, object)
			}
		}
	}
	return objects
}

// wants is want where err is not that.
func wants(want, err error, what string) error {
	if !errors.Is(err, want) {
		return fmt.Errorf("%s: %w instead of %w", what, err, want)
	}
	return nil
}

// cycle goes through all that can be done with a lock that nobody waits for.
func (r *restricted) cycle(locker *redlock.Locker) error {
	ctx := r.tb.Context()
	for range 2 { // the scripts by their source, and by their hash
		lock, err := locker.TryLock(ctx, "cycle", redlock.TTL(time.Minute))
		if err != nil {
			return err
		}
		if _, err := locker.TryLock(ctx, "cycle"); !errors.Is(err, redlock.ErrTaken) {
			return wants(redlock.ErrTaken, err, "TryLock of what is held")
		}
		if _, err := locker.TryLockAll(ctx, []string{"beside", "cycle"}); !errors.Is(err, redlock.ErrTaken) {
			return wants(redlock.ErrTaken, err, "TryLockAll of what is held")
		}
		locks, err := locker.TryLockAll(ctx, []string{"beside", "further"})
		if err != nil {
			return err
		}
		if err := locks.Unlock(ctx); err != nil {
			return err
		}
		if err := lock.Extend(ctx, long); err != nil {
			return err
		}
		state, err := locker.Inspect(ctx, "cycle")
		if err != nil {
			return err
		}
		if h := state.Holders; len(h) != 1 || h[0].Token != lock.Token() || h[0].Fence != lock.Fence() {
			return fmt.Errorf("Inspect: %+v", state)
		}
		token, err := lock.Detach(ctx)
		if err != nil {
			return err
		}
		if lock, err = locker.Attach(ctx, "cycle", token); err != nil {
			return err
		}
		r.do(0, "DEL", r.key("lock:cycle")) // and an extension re-creates it
		if err := lock.Extend(ctx, long); !errors.Is(err, redlock.ErrGone) {
			return wants(redlock.ErrGone, err, "Extend of what the only node has forgotten")
		}
		if err := lock.Unlock(ctx); !errors.Is(err, redlock.ErrNotHeld) {
			return wants(redlock.ErrNotHeld, err, "Unlock of what is lost")
		}
		if lock, err = locker.Lock(ctx, "cycle"); err != nil {
			return err
		}
		if err := lock.Unlock(ctx); err != nil {
			return err
		}
		if _, err := locker.TryLock(ctx, "cycle"); err != nil {
			return err
		}
		if _, err := locker.ForceUnlock(ctx, "cycle"); err != nil {
			return err
		}
	}
	return nil
}

// What somebody may want to do with a lock, and what is seen when it is not permitted.
var aclUses = map[string]func(r *restricted) error{
	"plain locks": func(r *restricted) error { return r.cycle(r.as()) },

	// Without the right each script goes by its source.
	"scripts by their hashes": func(r *restricted) error {
		err := r.cycle(r.as())
		if err == nil && slices.Contains(r.refusedTo(), "evalsha") {
			err = errors.New("EVALSHA was refused")
		}
		return err
	},

	"healing": func(r *restricted) error {
		r.do(0, "SET", r.key("lock:left"), "somebody's")
		ctx, cancel := context.WithTimeout(r.tb.Context(), 10*time.Second)
		defer cancel()
		_, err := r.as(redlock.WithHeal(time.Millisecond)).Lock(ctx, "left")
		return err
	},

	"the restart guard": func(r *restricted) error {
		locker := r.over(r.open(20*time.Millisecond), redlock.TTL(20*time.Millisecond))
		return r.soon("a vote", func() bool {
			_, err := locker.TryLock(r.tb.Context(), "guarded")
			return err == nil
		})
	},

	"the end of a connection that broke": func(r *restricted) error {
		locker := r.over(r.open(0, pool.WithTimeout(brief), pool.WithDialTimeout(brief), pool.WithMaxOverdue(time.Millisecond)))
		eventually(r.tb, func() bool {
			_, err := locker.TryLock(r.tb.Context(), "before")
			return err == nil || errors.Is(err, redlock.ErrTaken) // the answer to the first was late
		}, "a connection")
		r.do(0, "CONFIG", "SET", "slowlog-log-slower-than", 0)
		r.processes[0].Freeze()
		_, err := locker.TryLock(r.tb.Context(), "broken")
		pass(brief)
		r.processes[0].Thaw()
		if err == nil {
			return errors.New("a frozen server answers")
		}
		return r.soon("CLIENT KILL", func() bool {
			log := must(redis.Values(r.servers[0].Do("SLOWLOG", "GET", 128)))(r.tb)
			return strings.Contains(fmt.Sprintf("%s", log), "[CLIENT KILL ID ")
		})
	},

	"waking": func(r *restricted) error {
		r.foreign(r.key("lock:name"), long)
		waiter := lockBeside(r.tb.Context(), r.as(noPolls), "name")
		if err := r.soon("tracking", func() bool { return r.info(0, "stats", "tracking_total_keys") != "0" }); err != nil {
			r.do(0, "DEL", r.key("lock:name"))
			return err
		}
		r.do(0, "DEL", r.key("lock:name"))
		return won(r.tb, waiter).Unlock(r.tb.Context())
	},

	"trying whether a connection is alive": func(r *restricted) error {
		r.foreign(r.key("lock:name"), long)
		waiter := lockBeside(r.tb.Context(), r.as(), "name")
		err := r.soon("PING", func() bool { return r.done("ping") > 0 })
		r.do(0, "DEL", r.key("lock:name"))
		return errors.Join(err, won(r.tb, waiter).Unlock(r.tb.Context()))
	},

	"taking turns": func(r *restricted) error {
		listening := func() int {
			channels := must(redis.Strings(r.servers[0].Do("PUBSUB", "CHANNELS", r.key("quorumlock:*"))))(r.tb)
			return len(channels)
		}
		nodes := r.open(0)
		locker := r.over(nodes)
		held, err := r.as().Lock(r.tb.Context(), "turns")
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(r.tb.Context())
		defer cancel()
		waiter := lockBeside(ctx, locker, "turns")
		if err := r.soon("SUBSCRIBE", func() bool { return listening() > 0 }); err != nil {
			return err
		}
		if err := r.soon("PUBLISH", func() bool { return r.done("publish") > 0 }); err != nil {
			return err
		}
		cancel()
		receive(r.tb, waiter, "the end of the wait")
		if err := errors.Join(held.Unlock(r.tb.Context()), locker.Close()); err != nil {
			return err
		}
		return r.soon("UNSUBSCRIBE", func() bool { return listening() == 0 })
	},

	"fencing": func(r *restricted) error {
		locker := r.as(redlock.WithFencing())
		lock, err := locker.TryLock(r.tb.Context(), "number")
		if err != nil {
			return err
		}
		if err := lock.Extend(r.tb.Context(), long); err != nil {
			return err
		}
		r.do(0, "SET", r.key("{lock:number}:fence"), 5) // behind, as it may be on one of several nodes
		r.do(0, "DEL", r.key("lock:number"))
		if err := lock.Unlock(r.tb.Context()); !errors.Is(err, redlock.ErrNotHeld) {
			return wants(redlock.ErrNotHeld, err, "Unlock of what is gone")
		}
		if r.value(0, r.key("{lock:number}:fence")) != fmt.Sprint(lock.Fence()) {
			return errors.New("the counter is not raised")
		}
		return r.cycle(locker)
	},

	"shared locks": func(r *restricted) error {
		locker := r.as()
		for range 2 { // the scripts by their source, and by their hash
			a, err := locker.TryLock(r.tb.Context(), "read", redlock.TTL(time.Minute), redlock.Shared())
			if err != nil {
				return err
			}
			b, err := locker.TryLock(r.tb.Context(), "read", redlock.TTL(time.Minute), redlock.Shared())
			if err != nil {
				return err
			}
			state, err := locker.Inspect(r.tb.Context(), "read")
			if err != nil {
				return err
			}
			if len(state.Holders) != 2 {
				return fmt.Errorf("Inspect: %+v", state)
			}
			if err := errors.Join(a.Extend(r.tb.Context(), long), a.Unlock(r.tb.Context())); err != nil {
				return err
			}
			writer := lockBeside(r.tb.Context(), r.as(), "read")
			err = r.soon("who waits says so", func() bool { return r.do(0, "EXISTS", r.key("{lock:read}:wanted")) == int64(1) })
			if err := errors.Join(err, b.Unlock(r.tb.Context()), won(r.tb, writer).Unlock(r.tb.Context())); err != nil {
				return err
			}
		}
		return nil
	},

	"slots": func(r *restricted) error {
		locker := r.as()
		for range 2 { // the scripts by their source, and by their hash
			a, err := locker.TryLock(r.tb.Context(), "slot", redlock.TTL(time.Minute), redlock.Slots(2))
			if err != nil {
				return err
			}
			b, err := locker.TryLock(r.tb.Context(), "slot", redlock.TTL(time.Minute), redlock.Slots(2))
			if err != nil {
				return err
			}
			state, err := locker.Inspect(r.tb.Context(), "slot")
			if err != nil {
				return err
			}
			if len(state.Holders) != 2 {
				return fmt.Errorf("Inspect: %+v", state)
			}
			if err := errors.Join(a.Extend(r.tb.Context(), long), a.Unlock(r.tb.Context()), b.Unlock(r.tb.Context())); err != nil {
				return err
			}
		}
		return nil
	},

	"a database and a client name": func(r *restricted) error {
		url := r.url() + "/1"
		if r.tag != "" {
			url = r.url() // a cluster has one database
		}
		_, err := r.over(openGuarded(r.tb, []string{url}, 0, pool.WithClientName("name"))).TryLock(r.tb.Context(), "name")
		return err
	},
}

// aclNeeds says for each rule what does not work without it.
var aclNeeds = map[string]string{
	"~lock:*": "plain locks", "+set": "plain locks", "+getrange": "plain locks", "+del": "plain locks", "+pttl": "plain locks",
	"+pexpire": "plain locks", "+eval": "plain locks", "+evalsha": "scripts by their hashes",
	"+ping": "trying whether a connection is alive", "+info": "the restart guard", "~quorumlock:*": "the restart guard", "+client|id": "the end of a connection that broke", "+client|kill": "the end of a connection that broke",
	"+client|tracking": "waking", "+client|caching": "waking", "+subscribe": "taking turns",
	"&quorumlock:*": "taking turns", "+publish": "taking turns", "+unsubscribe": "taking turns",
	"~{lock:*}:fence": "fencing", "+incrby": "fencing", "+time": "fencing",
	"~{lock:*}:sharers": "shared locks", "~{lock:*}:wanted": "shared locks", "+pexpireat": "shared locks", "+zadd": "shared locks", "+zrem": "shared locks",
	"+zremrangebyscore": "shared locks", "+zcount": "shared locks", "+zscore": "shared locks", "+zrangebyscore": "shared locks", "+zrevrange": "shared locks",
	"~{lock:*}:slots": "slots", "+zcard": "slots",
	"+select": "a database and a client name", "+client|setname": "a database and a client name",
}

func TestACL_TheRulesInTheDocumentationAreEnough(t *testing.T) {
	t.Parallel()
	requireEnough(t, newRestricted, aclLines(t))
}

func TestACL_TheRulesForNodesOfAClusterAreEnough(t *testing.T) {
	t.Parallel()
	requireEnough(t, newRestrictedCluster, aclClusterLines(t))
}

// restrict starts a server with the user.
type restrict func(t *testing.T, patience time.Duration, lines ...[]string) *restricted

func requireEnough(t *testing.T, restrict restrict, lines [][]string) {
	t.Helper()
	inParallel(t, aclUses, func(t *testing.T, use func(r *restricted) error) {
		r := restrict(t, 30*time.Second, lines...)
		require.NoError(t, use(r))
		require.Empty(t, r.refusedTo())
	})
}

func TestACL_EachRuleInTheDocumentationIsNeeded(t *testing.T) {
	t.Parallel()
	lines := aclLines(t)
	rules := slices.Concat(lines...)[4:] // without reset, resetchannels, on and the password
	require.Len(t, rules, len(aclNeeds)+1, "+time is in two lines")
	for _, rule := range slices.Compact(slices.Sorted(slices.Values(rules))) {
		requireNeeded(t, newRestricted, lines, rule, aclNeeds[rule])
	}
}

// The other commands are the same.
func TestACL_EachPatternAndCommandForNodesOfAClusterIsNeeded(t *testing.T) {
	t.Parallel()
	lines := aclClusterLines(t)
	for i, rule := range slices.Concat(aclLines(t)...) {
		if rule[0] == '~' || rule[0] == '&' {
			requireNeeded(t, newRestrictedCluster, lines, slices.Concat(lines...)[i], aclNeeds[rule])
		}
	}
	for _, command := range lines[len(lines)-1] {
		requireNeeded(t, newRestrictedCluster, lines, command, "plain locks")
	}
}

// requireNeeded fails the test unless the server refuses a use without one rule.
func requireNeeded(t *testing.T, restrict restrict, lines [][]string, rule, use string) {
	t.Helper()
	t.Run(strings.NewReplacer("|", " ").Replace(rule), func(t *testing.T) {
		t.Parallel()
		require.Contains(t, aclUses, use)
		rules := slices.DeleteFunc(slices.Concat(lines...)[4:], func(r string) bool { return r == rule })
		r := restrict(t, time.Second, lines[0][:4], rules)
		err := aclUses[use](r)
		require.Error(t, err, use)
		t.Log(err)
		command, is := strings.CutPrefix(rule, "+")
		command = r.subcommand(command)
		eventually(t, func() bool {
			refused := r.refusedTo()
			return is && slices.Contains(refused, command) || !is && len(refused) > 0
		}, "the server has refused it: %s", rule)
	})
}

func TestACL_TheFirstLineInTheDocumentationIsEnoughForPlainLocks(t *testing.T) {
	t.Parallel()
	r := newRestricted(t, time.Second, aclLines(t)[0])
	for _, use := range []string{"plain locks", "healing"} {
		require.NoError(t, aclUses[use](r), use)
	}
	holder := take(t, r.as(), "name")
	waiter := lockBeside(t.Context(), r.as(), "name")
	pass(100 * time.Millisecond)
	unlock(t, holder)
	require.NoError(t, won(t, waiter).Unlock(t.Context()), "it asks again and again")
	for use, rule := range map[string]string{"the restart guard": "info", "waking": r.subcommand("client|tracking"), "fencing": "lock:number"} {
		require.Error(t, aclUses[use](r), use)
		require.True(t, slices.ContainsFunc(r.refusedTo(), func(object string) bool { return strings.Contains(object, rule) }), use)
	}
}

// The set of the sharers gets its TTL behind its first member.
func TestACL_WithoutTheRightToSetATTLNoSetOfSharersIsMade(t *testing.T) {
	t.Parallel()
	r := newRestricted(t, time.Second, aclLines(t)...)
	lock, err := r.as().TryLock(t.Context(), "read", redlock.TTL(time.Minute), redlock.Shared())
	require.NoError(t, err)
	r.do(0, "ACL", "SETUSER", "locker", "-pexpireat")
	r.do(0, "DEL", "lock:read", "{lock:read}:sharers")
	require.Error(t, lock.Extend(t.Context(), long), "which lets it in again")
	require.EqualValues(t, 0, r.do(0, "EXISTS", "lock:read", "{lock:read}:sharers"))

	r.do(0, "SET", "lock:read", "|shared", "PX", 60000) // a mark of nobody
	_, err = r.as().TryLock(t.Context(), "read", redlock.Shared())
	require.Error(t, err)
	require.EqualValues(t, 0, r.do(0, "EXISTS", "{lock:read}:sharers"))
}
