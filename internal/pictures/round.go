package pictures

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// round is a round over five nodes, of which one is far away and one is frozen.
func round(ctx context.Context) (*Timeline, error) {
	const (
		ttl  = 400 * time.Millisecond
		late = 3 // the node whose answer comes after the verdict
		dead = 4 // the node that does not answer
	)
	c, err := startNodes(ctx, 5)
	if err != nil {
		return nil, err
	}
	defer c.close()
	oneWay := []time.Duration{12 * time.Millisecond, 22 * time.Millisecond, 36 * time.Millisecond, 85 * time.Millisecond, 20 * time.Millisecond}
	locker, err := c.locker(ctx, "A", 240*time.Millisecond, oneWay)
	if err != nil {
		return nil, err
	}
	c.servers[dead].Freeze()
	if _, err := locker.TryLock(ctx, lockName, redlock.TTL(ttl)); err != nil {
		return nil, errors.Join(errOtherwise, err)
	}
	expiry := make([]time.Time, dead)
	for i := range expiry {
		if _, err := await(ctx, c.record, "nodes", 1, func(e keyEvent) bool { return e.Node == i && e.What == "set" }); err != nil {
			return nil, err
		}
		if expiry[i], err = c.expiry(i); err != nil {
			return nil, err
		}
	}
	end, err := await[event.End](ctx, c.record, "A", 1, nil)
	if err != nil {
		return nil, err
	}
	votes, err := await[event.Vote](ctx, c.record, "A", 5, nil)
	if err != nil {
		return nil, err
	}
	verdict := find[event.Round](c.record, "A", nil)[0]
	acquired := find[event.Acquire](c.record, "A", nil)[0]

	start := acquired.Start
	deadline := verdict.At.Add(verdict.Validity).Sub(start)
	// The texts add up: what was rounded away is below a millisecond.
	drift := (ttl - deadline).Round(time.Millisecond)
	elapsed := verdict.At.Sub(start).Round(time.Millisecond)
	t := &Timeline{
		Title: "A round on five nodes",
		Description: fmt.Sprintf("Five lanes, one for each node, over an axis of time. The command goes to all nodes at once. "+
			"Nodes 1 to 3 say yes, and at the third yes, after %d ms, the round is won. Node 4 says yes later, node 5 is frozen and does not answer. "+
			"Of the TTL of %d ms the lock has %d ms of validity: the elapsed time and %d ms of drift are subtracted. "+
			"The lock ends before the keys on the nodes expire.",
			elapsed.Milliseconds(), ttl.Milliseconds(), (ttl - elapsed - drift).Milliseconds(), drift.Milliseconds()),
		Legend: []Sample{{"wait", "asked, no answer yet"}, {"yes", "yes"}, {"unknown", "no answer in time"}, {"a", "key on the node; validity"}, {"drift", "drift"}},
	}
	p := Panel{Until: 500 * time.Millisecond, Rules: []Rule{
		{verdict.At.Sub(start), "verdict: won at the third yes"},
		{deadline, "deadline"},
	}}
	claims := []claim{{verdict.Err == nil, "the round is won"}, {errors.Is(end[0].Err, redlock.ErrExpired), "the lock ends at its deadline"}}
	counted := index(c.record, "A", func(event.Round) bool { return true })
	for i := range c.servers {
		vote := find(c.record, "A", func(v event.Vote) bool { return v.Node == i })[0]
		answered := vote.At.Sub(start)
		before := index(c.record, "A", func(v event.Vote) bool { return v.Node == i }) < counted
		claims = append(claims, claim{before == (i < late), fmt.Sprintf("the answer of %s comes in its place", nodeName(i))})
		lane := Lane{Name: nodeName(i), Bands: []Band{{Class: "wait", To: answered}}}
		if i == dead {
			claims = append(claims, claim{vote.Answer == event.AnswerUnknown, "the frozen node does not answer"})
			lane.Bands[0].Text = "frozen"
			lane.Marks = []Mark{{"unknown", answered, "no answer within the node timeout"}}
			p.Lanes = append(p.Lanes, lane)
			continue
		}
		claims = append(claims, claim{vote.Answer == event.AnswerYes, nodeName(i) + " says yes"},
			claim{start.Add(deadline).Before(expiry[i]), "the key outlives the lock on " + nodeName(i)})
		text := "yes"
		if i == late {
			text = "yes: one more node that holds the lock"
		}
		p.Until = max(p.Until, expiry[i].Sub(start)+20*time.Millisecond)
		lane.Bands = append([]Band{{Class: "a", From: c.keys(i, "set")[0].At.Sub(start), To: expiry[i].Sub(start)}}, lane.Bands...)
		lane.Marks = []Mark{{"yes", answered, text}}
		p.Lanes = append(p.Lanes, lane)
	}
	validity := (ttl - elapsed - drift).Milliseconds()
	p.Lanes = append(p.Lanes, Lane{Name: "lock", Bands: []Band{
		{Class: "grey", To: verdict.At.Sub(start), Text: fmt.Sprintf("%d ms", elapsed.Milliseconds())},
		{Class: "a", From: verdict.At.Sub(start), To: deadline, Text: fmt.Sprintf("validity %d ms", validity)},
		{Class: "drift", From: deadline, To: ttl},
	}, Marks: []Mark{{"", 0, fmt.Sprintf("validity %d ms = TTL %d − elapsed %d − drift %d", validity, ttl.Milliseconds(), elapsed.Milliseconds(), drift.Milliseconds())}}})
	t.Panels = []Panel{p}
	return t, show(append(claims, claim{len(votes) == 5, "every node has its answer"})...)
}
