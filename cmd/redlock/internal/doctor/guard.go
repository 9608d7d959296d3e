package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// guardChecks look at what programs with a restart guard know of a server.
var guardChecks = []check{
	{name: "quarantine", docs: "operations.md#restarts-and-upgrades", need: both(info(), stampKnown), node: quarantine, when: isGuarded,
		why: "The restart guard lets the node grant no locks until all that it may have forgotten has expired."},
	{name: "backlog", docs: "operations.md#server-settings", need: config("repl-backlog-ttl"), node: backlog, when: isGuarded,
		why: "A replica that was promoted forgets that it was, and its stamp may count for too long: it grants locks that its master had granted."},
}

func isGuarded(o *Options) bool { return o.RestartGuard > 0 }

// prepareCheck is the name of the check that is made of what Options.Prepare has done.
const prepareCheck = "prepare"

// stampKnown is the need of whoever wants to know since when the server has been in use.
func stampKnown(f *facts) string { return f.noStamp }

// since asks since when the server has been in use as the node. It is stamped before that, if it is to be.
func (f *facts) since(ctx context.Context, c *conn, o *Options) {
	if !o.guarded(f) {
		return
	}
	if o.Prepare {
		f.prepared = f.prepare(ctx, o)
	}
	replies := c.all(ctx, client.AskStamp(f.to)...)
	if replies == nil {
		return
	}
	stamp, err := client.ReadStamp(f.who, replies)
	var refusal *nodeerr.ServerError
	switch {
	case err == nil:
		f.stamp = stamp
	case !errors.As(err, &refusal):
		c.err = err
	case refusal.Code != "NOPERM":
		f.noStamp = "the stamp of the node, whose read the server answers with " + quoted(refusal.Message)
	case aboutKey.MatchString(refusal.Message):
		f.noStamp = "the right " + f.rule(stampKeys)
	default:
		f.noStamp = "the right +getrange +pttl"
	}
}

// prepare does what a program does that connects with the restart guard: it stamps the server. It returns why that has failed.
func (f *facts) prepare(ctx context.Context, o *Options) error {
	n := f.node(ctx, o, o.RestartGuard)
	defer n.Close()
	err := ask(ctx, n, o)
	var quarantined *nodeerr.QuarantineError
	switch {
	case errors.As(err, &quarantined):
		return quarantined.Err
	case errors.As(err, new(*nodeerr.ServerError)) && !errors.As(err, new(*nodeerr.ConnectError)):
		return nil // it refuses locks for another reason, and might vote otherwise
	}
	return err
}

func prepared(x *examination, f *facts) []Finding {
	var refusal *nodeerr.ServerError
	switch err := f.prepared; {
	case err == nil || x.found(f, append([]string{"identity"}, explains...)...):
		return nil
	case errors.As(err, &refusal) && refusal.Code == "NOPERM":
		return fault("the server refuses its stamp: "+printable(refusal.Error()), aclFix(f, identityLine, x.Prefix))
	default:
		return fault("the server could not be stamped: "+printable(err.Error()), "see what the error means in docs/failures.md")
	}
}

func quarantine(x *examination, f *facts) []Finding {
	left := f.stamp.Left(x.RestartGuard, 0)
	if !x.guarded(f) || !f.identified() || left <= 0 {
		return nil
	}
	wait := (left + time.Second - 1).Truncate(time.Second)
	if f.stamp.Void != "" {
		return warning(fmt.Sprintf("%s: programs that connect do not use it for locks for %s", f.stamp.Void, wait),
			"wait. Before the first use of new servers, stamp them: redlock doctor --prepare; never one that is to replace another in use")
	}
	return warning(fmt.Sprintf("the server has been in use as this node for %s: programs do not use it for locks for %s", f.stamp.Age.Round(time.Second), wait),
		"wait; restart the next node only when this one grants locks again")
}

func backlog(x *examination, f *facts) []Finding {
	s := number(f.config, "repl-backlog-ttl")
	return warningIf(x.guarded(f) && s > 0 && float64(s) < x.RestartGuard.Seconds(),
		fmt.Sprintf("repl-backlog-ttl is %d s, which is below the restart guard of %s", s, x.RestartGuard),
		"CONFIG SET repl-backlog-ttl 0 (also in the file), or above the restart guard")
}
