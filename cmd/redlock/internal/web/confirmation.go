package web

import (
	"errors"
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// unlockView is a lock that is to be removed, or was.
type unlockView struct {
	Name        string
	Title       string       // what is to be unlocked or ended
	One         bool         // it is one sharer of the lock
	Query       template.URL // has the name
	State, Text string       // of the lock
	Notice      string       // what happened instead
	Nodes       []holding
	Removable   int      // on how many nodes
	Unsure      bool     // a token does not look like one
	Key         string   // of the form: the name
	Holders     []string // of the form: the tokens that are removed
	Token       string   // of the form: that of the One
	Shared      shared   // who is ended
	Obstacle    string   // why it cannot be freed
	Done        bool
}

// Overlap is what to know before it is removed.
func (*unlockView) Overlap() string { return survey.Overlap }

// confirmation shows what an unlock would remove. The notice says why it is shown again.
func (s *Server) confirmation(t target, state *redlock.LockState, notice string) *view {
	u := t.view(state)
	u.Notice, u.Obstacle, u.Shared = notice, hindered(state), sharersOf(state)
	for _, n := range state.Nodes {
		h := show(&n)
		switch {
		case n.Kind != "" && u.Obstacle != "":
			h.Text = "left alone"
		case n.Kind != "":
			h.Text = "will be removed"
			u.Removable++
			u.Unsure = u.Unsure || n.Kind == redlock.KindExclusive && token.Owner(string(n.Holders[0].Token)) == ""
			for _, held := range holdersOf(&n) {
				if holder := encoding.EncodeToString([]byte(held)); !slices.Contains(u.Holders, holder) {
					u.Holders = append(u.Holders, holder)
				}
			}
		case errors.Is(n.Err, nodeerr.ErrForeign):
			h.Text = "left alone: data of another program, not a lock"
		case n.Err != nil:
			h.Text = "left alone: " + errorText(n.Err)
		default:
			h.Text = "holds nothing"
			if u.One {
				h.Text = "does not have it"
			}
		}
		u.Nodes = append(u.Nodes, h)
	}
	u.State, u.Text = t.statement(state)
	return s.unlockPage(state.Name, u)
}

// view returns what every page about an unlock has.
func (t target) view(part *redlock.LockState) *unlockView {
	return &unlockView{
		Name: display.Clipped(t.name, maxText), Title: t.title(part), One: t.token != "", Query: query{Name: t.name}.Link(),
		Key: encoding.EncodeToString([]byte(t.name)), Token: encoding.EncodeToString([]byte(t.token)),
	}
}

// hindered returns why a lock cannot be freed, "" if it can, or if there is nothing to remove.
func hindered(state *redlock.LockState) string {
	answering, foreign, held := 0, 0, false
	for _, n := range state.Nodes {
		isForeign := errors.Is(n.Err, nodeerr.ErrForeign)
		if n.Err == nil || isForeign {
			answering++
		}
		if isForeign {
			foreign++
		}
		held = held || n.Kind != ""
	}
	if answering >= state.Need && !held {
		return ""
	}
	return obstacle(answering, foreign, len(state.Nodes), state.Need)
}

// holdersOf are the tokens that a node holds. With a mark the first one is what the holders are called.
func holdersOf(n *redlock.NodeState) (all []string) {
	if display.Several(n.Kind) {
		all = append(all, display.Nouns(n.Kind))
	}
	for _, h := range n.Holders {
		all = append(all, string(h.Token))
	}
	return all
}

// statement says who holds a lock.
func statement(s *redlock.LockState) (state, text string) {
	switch {
	case s.Verdict == redlock.VerdictHeld && display.Several(s.Kind):
		return stateHeld, fmt.Sprintf("Held by %s: each is on a majority.", display.Counted(len(s.Holders), display.Noun(s.Kind)))
	case s.Verdict == redlock.VerdictHeld && s.Holders[0].Token == "":
		return stateHeld, "Held by an empty value: a majority of the nodes has a key without a token, and nobody can take the lock."
	case s.Verdict == redlock.VerdictHeld:
		return stateHeld, "Held by a majority: it has the same token."
	case s.Verdict == redlock.VerdictForeign:
		return stateOther, "Data of another program: nobody holds the lock, and nobody can take it."
	case s.Verdict == redlock.VerdictUnknown:
		return stateUnknown, "Unknown: the nodes that do not answer decide."
	case slices.ContainsFunc(s.Nodes, func(n redlock.NodeState) bool { return n.Kind != "" }):
		return stateSplit, "Held by nobody: no majority of the nodes has the same token, whatever those hold that do not answer."
	}
	return stateFree, "Held by nobody."
}

// removed shows what an unlock has done: the state is that before it.
func (s *Server) removed(t target, state *redlock.LockState, failed []error) *view {
	u := t.view(state)
	u.Done = true
	free := 0
	for i, n := range state.Nodes {
		h := show(&n)
		switch err := failed[i]; {
		case n.Kind == "" && n.Err == nil:
			h.Text = "held nothing"
			if u.One {
				h.Text = "did not have it"
			}
			free++
		case n.Kind == "":
			h.Text = "left alone: " + errorText(n.Err)
		case err == nil:
			h.State, h.Text = stateFree, "removed"
			free++
		case errors.Is(err, nodeerr.ErrAbsent) || u.One && errors.Is(err, nodeerr.ErrHeld): // another has the lock
			h.State, h.Text = stateFree, "gone already"
			free++
		case errors.Is(err, nodeerr.ErrHeld):
			h.State, h.Text = stateSplit, "left alone: another has taken it meanwhile"
		default:
			h.State, h.Text = stateUnknown, "not known to be removed: "+errorText(err)
		}
		u.Nodes = append(u.Nodes, h)
	}
	u.State, u.Text = t.result(state, free)
	return s.unlockPage(state.Name, u)
}

func (s *Server) unlockPage(name string, u *unlockView) *view {
	v := s.base(query{Name: name})
	v.At, v.Unlock = clock(time.Now()), u
	return v
}

// tokenText shows a token that a node holds: an empty one is visible too.
func tokenText(token string, most int) string {
	if token == "" {
		return `""`
	}
	return display.Clipped(token, most)
}

// show shows what one node holds.
func show(n *redlock.NodeState) holding {
	h := holding{
		Addr: display.Clipped(n.Addr, maxText), State: stateFree,
	}
	switch {
	case display.Several(n.Kind):
		h.State, h.Left, h.Token = stateHeld, remaining(display.Last(n.Holders, n.TTL)), display.Counted(len(n.Holders), display.Noun(n.Kind))
	case n.Kind != "":
		held := n.Holders[0]
		h.State, h.Left, h.Token, h.Fence = stateHeld, remaining(n.TTL), tokenText(string(held.Token), maxText), held.Fence
	case n.Err != nil:
		h.State = stateUnknown
	}
	return h
}
