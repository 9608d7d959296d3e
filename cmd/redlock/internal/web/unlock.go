package web

import (
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
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
	Query       template.URL // has the name
	State, Text string       // of the lock
	Notice      string       // what happened instead
	Nodes       []holding
	Removable   int      // on how many nodes
	Unsure      bool     // a token does not look like one
	Key         string   // of the form: the name
	Holders     []string // of the form: the tokens that are removed
	Obstacle    string   // why it cannot be freed
	Done        bool
}

// Overlap is what to know before it is removed.
func (*unlockView) Overlap() string { return survey.Overlap }

// encoding is that of what forms have to bring back byte by byte: browsers change line ends and what is no UTF-8.
var encoding = base64.RawURLEncoding

// confirm shows what an unlock would remove, with the form that does it.
func (s *Server) confirm(w http.ResponseWriter, r *http.Request) {
	if !s.AllowUnlock {
		s.fail(w, http.StatusForbidden, notAllowed)
		return
	}
	name := r.URL.Query().Get("name")
	state, err := s.Locker.Inspect(r.Context(), name)
	if state == nil {
		s.fail(w, http.StatusBadRequest, errorText(err))
		return
	}
	s.show(w, http.StatusOK, s.confirmation(state, ""))
}

const notAllowed = "This page only shows locks: redlock web was started without --allow-unlock."

// unlock removes what the form was about: from each node what it holds, if that is a token of which the form was. If the lock has
// another holder by now, it removes nothing and asks once more.
func (s *Server) unlock(w http.ResponseWriter, r *http.Request) {
	if !s.AllowUnlock {
		s.fail(w, http.StatusForbidden, notAllowed)
		return
	}
	name, confirmed, err := parseForm(r)
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	state, err := s.Locker.Inspect(r.Context(), name)
	if state == nil {
		s.fail(w, http.StatusBadRequest, errorText(err))
		return
	}
	if hindered(state) != "" {
		s.show(w, http.StatusConflict, s.confirmation(state, "Nothing was removed."))
		return
	}
	held := false
	for i := range state.Nodes {
		n := &state.Nodes[i]
		held = held || n.Kind != ""
		if display.Several(n.Kind) { // without the holders that have come since
			n.Holders = slices.DeleteFunc(n.Holders, func(h redlock.Holder) bool { return !slices.Contains(confirmed, string(h.Token)) })
		}
		if n.Kind != "" && !slices.Contains(confirmed, holdersOf(n)[0]) {
			s.show(w, http.StatusConflict, s.confirmation(state, "The lock has changed hands since this page was shown. Nothing was removed. This is what it looks like now."))
			return
		}
	}
	if !held {
		s.show(w, http.StatusConflict, s.confirmation(state, "Nothing was removed: none of the nodes that answered holds the lock any more."))
		return
	}
	failed, record := survey.Remove(s.Nodes, s.Prefix, state)
	if record != "" {
		s.journal.add(record)
	}
	s.show(w, http.StatusOK, s.removed(state, failed))
}

// parseForm returns what an unlock is about: a name, and the tokens that may be removed.
func parseForm(r *http.Request) (name string, confirmed []string, err error) {
	decode := func(text string) string {
		decoded, failed := encoding.DecodeString(text)
		if failed != nil {
			err = errors.New("the form cannot be read")
		}
		return string(decoded)
	}
	name = decode(r.PostForm.Get("name"))
	for _, text := range r.PostForm["holder"] {
		confirmed = append(confirmed, decode(text))
	}
	return name, confirmed, err
}

// confirmation shows what an unlock would remove. The notice says why it is shown again.
func (s *Server) confirmation(state *redlock.LockState, notice string) *view {
	u := &unlockView{
		Name: display.Clipped(state.Name, maxText), Query: query{Name: state.Name}.Link(), Notice: notice,
		Key: encoding.EncodeToString([]byte(state.Name)), Obstacle: hindered(state),
	}
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
		}
		u.Nodes = append(u.Nodes, h)
	}
	u.State, u.Text = statement(state)
	return s.unlockPage(state.Name, u)
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
func (s *Server) removed(state *redlock.LockState, failed []error) *view {
	u := &unlockView{Name: display.Clipped(state.Name, maxText), Query: query{Name: state.Name}.Link(), Done: true}
	free := 0
	for i, n := range state.Nodes {
		h := show(&n)
		switch err := failed[i]; {
		case n.Kind == "" && n.Err == nil:
			h.Text = "held nothing"
			free++
		case n.Kind == "":
			h.Text = "left alone: " + errorText(n.Err)
		case err == nil:
			h.State, h.Text = stateFree, "removed"
			free++
		case errors.Is(err, nodeerr.ErrAbsent):
			h.State, h.Text = stateFree, "gone already"
			free++
		case errors.Is(err, nodeerr.ErrHeld):
			h.State, h.Text = stateSplit, "left alone: another has taken it meanwhile"
		default:
			h.State, h.Text = stateUnknown, "not known to be removed: "+errorText(err)
		}
		u.Nodes = append(u.Nodes, h)
	}
	u.State, u.Text = stateFree, fmt.Sprintf("The lock is free: %d of %d nodes do not hold it any more.", free, len(state.Nodes))
	if free < state.Need {
		u.State, u.Text = stateUnknown, fmt.Sprintf("The lock may still be held: only %d of %d nodes are known not to hold it, %d are needed.", free, len(state.Nodes), state.Need)
	}
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
		h.State, h.Left, h.Token = stateHeld, remaining(n.TTL), display.Counted(len(n.Holders), display.Noun(n.Kind))
	case n.Kind != "":
		held := n.Holders[0]
		h.State, h.Left, h.Token, h.Fence = stateHeld, remaining(n.TTL), tokenText(string(held.Token), maxText), held.Fence
	case n.Err != nil:
		h.State = stateUnknown
	}
	return h
}
