package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	// maxStreams is how many open pages are kept up to date.
	maxStreams = 32
	// streamLife is how long a page is kept up to date before it has to connect again, as it does by itself: who does not read
	// what is sent would keep the place of another one.
	streamLife = 15 * time.Minute
	// tick is how often the times on an open page change.
	tick = time.Second
)

// fragments are the parts of a page that change: templates, and the ids of the elements that they fill.
func (v *view) fragments() []string {
	if v.Query.Name != "" {
		return []string{"asof", "summary", "lock"}
	}
	return []string{"asof", "summary", "nodes", "locks", "changes", "doctor"}
}

// events keeps an open page up to date: it sends the fragments that have changed, as server-sent events. An event is a JSON object,
// so that no text in it can begin another event.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if from := r.Header.Get("Sec-Fetch-Site"); from != "" && from != "same-origin" {
		s.fail(w, http.StatusForbidden, "This is for the page of this server only.")
		return
	}
	q, err := s.query(r)
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	defer s.streams.Add(-1)
	if s.streams.Add(1) > maxStreams {
		w.Header().Set("Retry-After", "5")
		s.fail(w, http.StatusServiceUnavailable, fmt.Sprintf("More than %d pages are open.", maxStreams))
		return
	}
	to := http.NewResponseController(w)
	_ = to.SetReadDeadline(time.Time{}) // nothing more is read
	w.Header().Set("Content-Type", "text/event-stream")
	sent := map[string]string{"process": s.process}
	pause := time.NewTimer(tick)
	defer pause.Stop()
	began := time.Now()
	for first := true; r.Context().Err() == nil && time.Since(began) < streamLife; first = false {
		snap, next := s.poller.latest(r.Context())
		s.examiner.visit(s.ctx, false)
		changed, err := s.view(q, snap, time.Now()).changed(sent)
		if first {
			changed["process"] = s.process
		}
		if err != nil || send(w, to, changed) != nil {
			return
		}
		pause.Reset(tick)
		select {
		case <-next:
		case <-pause.C:
		case <-r.Context().Done():
		}
	}
}

// latest returns what the nodes have answered lately, and a channel that is closed when there is more. It notes that somebody looks.
func (p *poller) latest(ctx context.Context) (*snapshot, <-chan struct{}) {
	p.mu.Lock()
	known := p.current != nil
	p.mu.Unlock()
	if !known {
		ctx, cancel := context.WithTimeout(ctx, answerBound)
		defer cancel()
		p.fresh(ctx)
	}
	p.look()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current, p.next
}

// changed renders the fragments that differ from what was sent before.
func (v *view) changed(sent map[string]string) (map[string]string, error) {
	all := map[string]string{}
	for _, name := range v.fragments() {
		text, err := render(name, v)
		if err != nil {
			return nil, err
		}
		if sent[name] != string(text) {
			sent[name], all[name] = string(text), string(text)
		}
	}
	return all, nil
}

// send writes an event. It is written also if it says nothing: the page notices when none comes.
func send(w http.ResponseWriter, to *http.ResponseController, fragments map[string]string) error {
	text, err := json.Marshal(fragments)
	if err != nil {
		return err
	}
	_ = to.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := w.Write(slices.Concat([]byte("data: "), text, []byte("\n\n"))); err != nil {
		return err
	}
	return to.Flush()
}
