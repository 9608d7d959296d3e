package web

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/redlock"
)

// encoding is that of what forms have to bring back byte by byte: browsers change line ends and what is no UTF-8.
var encoding = base64.RawURLEncoding

// confirm shows what an unlock would remove, with the form that does it.
func (s *Server) confirm(w http.ResponseWriter, r *http.Request) {
	if !s.AllowUnlock {
		s.fail(w, http.StatusForbidden, notAllowed)
		return
	}
	values := r.URL.Query()
	one, err := parseToken(values.Get("token"))
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	t := target{values.Get("name"), one}
	state, err := s.Locker.Inspect(r.Context(), t.name)
	if state == nil {
		s.fail(w, http.StatusBadRequest, errorText(err))
		return
	}
	s.show(w, http.StatusOK, s.confirmation(t, t.in(state), ""))
}

const notAllowed = "This page only shows locks: redlock web was started without --allow-unlock."

// unlock removes what the form was about: from each node what it holds, if that is a token of which the form was. If the lock has
// another holder by now, it removes nothing and asks once more.
func (s *Server) unlock(w http.ResponseWriter, r *http.Request) {
	if !s.AllowUnlock {
		s.fail(w, http.StatusForbidden, notAllowed)
		return
	}
	t, confirmed, err := parseForm(r)
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	state, err := s.Locker.Inspect(r.Context(), t.name)
	if state == nil {
		s.fail(w, http.StatusBadRequest, errorText(err))
		return
	}
	state = t.in(state)
	if hindered(state) != "" {
		s.show(w, http.StatusConflict, s.confirmation(t, state, "Nothing was removed."))
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
			s.show(w, http.StatusConflict, s.confirmation(t, state, "The lock has changed hands since this page was shown. Nothing was removed. This is what it looks like now."))
			return
		}
	}
	if !held {
		s.show(w, http.StatusConflict, s.confirmation(t, state, "Nothing was removed: none of the nodes that answered has the "+t.noun(state)+" any more."))
		return
	}
	failed, record := survey.Remove(s.Nodes, s.Prefix, state)
	if record != "" {
		s.journal.add(record)
	}
	s.show(w, http.StatusOK, s.removed(t, state, failed))
}

// parseForm returns what an unlock is about, and the tokens that may be removed.
func parseForm(r *http.Request) (t target, confirmed []string, err error) {
	decode := func(text string) string {
		decoded, failed := encoding.DecodeString(text)
		if failed != nil {
			err = errors.New("the form cannot be read")
		}
		return string(decoded)
	}
	t = target{decode(r.PostForm.Get("name")), decode(r.PostForm.Get("token"))}
	for _, text := range r.PostForm["holder"] {
		confirmed = append(confirmed, decode(text))
	}
	return t, confirmed, err
}
