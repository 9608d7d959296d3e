package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/subtle"
	"embed"
	"errors"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
)

//go:embed page.html style.css live.js icon.svg
var files embed.FS

var templates = template.Must(template.New("").Funcs(functions).ParseFS(files, "page.html"))

var functions = template.FuncMap{"mark": mark, "clip": clip, "pieces": pieces, "steps": steps}

// clip makes a text fit to be shown.
func clip(text string) string { return display.Clipped(text, 2*maxText) }

// mark returns the mark of a state, so that the colour is not its only sign.
func mark(state string) string { return cmp.Or(marks[state], "·") }

var marks = map[string]string{
	"up": "●", "slow": "▲", "quarantined": "◆", "down": "✕",
	stateHeld: "●", stateForever: "■", stateSplit: "◐", stateOther: "□", stateFree: "○", stateUnknown: "?",
	"taken": "●", "changed-hands": "⇄", "freed": "○", "expired": "◌", "ended": "○", "no-majority": "◐", "majority-again": "●",
	"fault": "✕", "warning": "▲",
}

// policy lets a page load nothing but what this server has, and run no script but live.js.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

const (
	maxBody = 1 << 20 // bytes of a form
	// answerBound is how long a page waits for the nodes.
	answerBound = 5 * time.Second
)

// handler returns what answers the requests.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /lock", s.page)
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /unlock", s.confirm)
	mux.HandleFunc("POST /unlock", s.guarded(s.unlock))
	mux.HandleFunc("POST /examine", s.guarded(s.reexamine))
	for _, file := range []string{"style.css", "live.js", "icon.svg"} {
		mux.HandleFunc("GET /"+file, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, file) })
	}
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.fail(w, http.StatusForbidden, "This form was sent from another site.")
	}))
	inner := sameOrigin.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers would not name the origin of our own forms
		h.Set("Cache-Control", "no-store")
		if !s.mine(r) {
			s.fail(w, http.StatusMisdirectedRequest, "This page is not known by the name in the address. Open it by its IP address or as localhost.")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		inner.ServeHTTP(w, r)
	})
}

// mine reports whether the request names this server. Another site whose name was made to lead here (DNS rebinding) comes with
// that name.
func (s *Server) mine(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") || s.Host != "" && strings.EqualFold(host, s.Host) {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if addr.IsLoopback() {
		return true
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return local != nil && local.AddrPort().Addr().Unmap() == addr.Unmap()
}

// guarded lets a form through that one of our own pages has sent.
func (s *Server) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			code := http.StatusBadRequest
			if errors.As(err, new(*http.MaxBytesError)) {
				code = http.StatusRequestEntityTooLarge
			}
			s.fail(w, code, "The form cannot be read.")
			return
		}
		if subtle.ConstantTimeCompare([]byte(r.PostForm.Get("secret")), []byte(s.secret)) != 1 {
			s.fail(w, http.StatusForbidden, "This form is not from a page of this server, or from before its restart. Open the page again.")
			return
		}
		next(w, r)
	}
}

// page shows all locks, or the one that the query names.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.Query())
	switch {
	case err != nil:
	case r.URL.Path == "/":
		q.Name = ""
	case q.Name == "":
		err = errors.New("the name of the lock is missing")
	}
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerBound)
	defer cancel()
	snap := s.poller.fresh(ctx)
	s.examiner.visit(s.ctx, false)
	s.show(w, http.StatusOK, s.view(q, snap, time.Now()))
}

// reexamine lets the doctor examine the nodes once more.
func (s *Server) reexamine(w http.ResponseWriter, r *http.Request) {
	s.examiner.visit(s.ctx, true)
	http.Redirect(w, r, "/#doctor", http.StatusSeeOther)
}

// fail says why a request is not answered.
func (s *Server) fail(w http.ResponseWriter, code int, why string) {
	v := s.base(query{})
	v.Fault = why
	s.show(w, code, v)
}

func (s *Server) show(w http.ResponseWriter, code int, v *view) {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, "page", v); err != nil {
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(text.Bytes())
}
