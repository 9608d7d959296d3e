package supervise

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// event is something that has happened to the lock or the command. As JSON it is documented in docs/tool.md.
type event struct {
	Event     string `json:"event"`
	Time      string `json:"time"`
	Name      string `json:"name"`
	Token     string `json:"token,omitempty"`
	Fence     uint64 `json:"fence,omitempty"`
	Validity  *int64 `json:"validity_ms,omitempty"`
	Holder    string `json:"holder,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Processes int    `json:"processes,omitempty"`
	Signal    string `json:"signal,omitempty"`
	Code      *int   `json:"code,omitempty"`
	Error     string `json:"error,omitempty"`
}

// text returns an event as a sentence for people. What comes from elsewhere is quoted.
func (e event) text() string {
	switch e.Event {
	case "waiting":
		return fmt.Sprintf("acquiring the lock %q", e.Name)
	case "blocked":
		switch {
		case e.Error != "":
			return fmt.Sprintf("waiting for the lock %q: %s", e.Name, e.Error)
		case e.Holder != "":
			return fmt.Sprintf("waiting for the lock %q, which is held by %q", e.Name, e.Holder)
		}
		return fmt.Sprintf("waiting for the lock %q", e.Name)
	case "acquired":
		if e.Fence > 0 {
			return fmt.Sprintf("acquired the lock, valid for %s, fencing token %d", e.validity(), e.Fence)
		}
		return fmt.Sprintf("acquired the lock, valid for %s", e.validity())
	case "renewed":
		return fmt.Sprintf("renewed the lock, valid for %s", e.validity())
	case "started":
		return fmt.Sprintf("started the command as process %d", e.PID)
	case "signal":
		return fmt.Sprintf("passed %s on to the command", e.Signal)
	case "term", "kill":
		return fmt.Sprintf("sent %s to the command", strings.ToUpper(e.Event))
	case "ended":
		if e.Signal != "" {
			return fmt.Sprintf("the command was ended by %s", e.Signal)
		}
		return fmt.Sprintf("the command ended with exit code %d", *e.Code)
	case "left":
		what := "processes"
		switch {
		case e.Processes == 1:
			what = "a process"
		case e.Processes > 1:
			what = fmt.Sprintf("%d processes", e.Processes)
		}
		return fmt.Sprintf("the command has left %s of its group %d, which are ended now: let it wait for what it starts, "+
			"or start with setsid what may run on without the lock", what, e.PID)
	case "lost":
		return fmt.Sprintf("the lock %q is lost: %s", e.Name, e.Error)
	case "released":
		return "released the lock"
	case "not_released":
		return fmt.Sprintf("the lock %q could not be released and ends at its TTL: %s", e.Name, e.Error)
	case "kept":
		return fmt.Sprintf("the lock stays for %s", e.validity())
	case "not_kept":
		return fmt.Sprintf("the lock %q may end before --at-least: %s", e.Name, e.Error)
	}
	return ""
}

func (e event) validity() time.Duration { return time.Duration(*e.Validity) * time.Millisecond }

func milliseconds(d time.Duration) *int64 {
	ms := d.Milliseconds()
	return &ms
}

// timeFormat is that of RFC 3339, with milliseconds. Events are in UTC.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// Events prints what happens. A reader that does not read holds nothing up: what it does not take is dropped.
type Events struct {
	name          string
	json, verbose bool
	lines         chan string
	done          chan struct{}
}

// NewEvents prints events about the lock of a name: as JSON, or as text; without verbose only warnings.
func NewEvents(w io.Writer, name string, json, verbose bool) *Events {
	e := &Events{name, json, verbose, make(chan string, 64), make(chan struct{})}
	go func() {
		defer close(e.done)
		for line := range e.lines {
			_, _ = io.WriteString(w, line) // nobody to tell
		}
	}()
	return e
}

// Close returns when all events are printed, or soon if nobody reads them.
func (e *Events) Close() {
	close(e.lines)
	select {
	case <-e.done:
	case <-time.After(time.Second):
	}
}

// say prints an event with --verbose or --json.
func (e *Events) say(what event) {
	if e.json || e.verbose {
		e.warn(what)
	}
}

// warn prints an event in any case.
func (e *Events) warn(what event) {
	what.Name, what.Time = e.name, time.Now().UTC().Format(timeFormat)
	line := "redlock: " + strings.ReplaceAll(what.text(), "\n", "\nredlock: ")
	if e.json {
		text, _ := json.Marshal(what) // text and numbers always succeed
		line = string(text)
	} else if what.text() == "" {
		return
	}
	select {
	case e.lines <- line + "\n":
	default:
	}
}

// lost reports that the lock is lost.
func (e *Events) lost(reason string, mode OnLost) {
	what := event{Event: "lost", Error: reason}
	if mode == OnLostWarn {
		e.warn(what)
	} else {
		e.say(what)
	}
}

// Exit reports the exit code, and why it is that. Only JSON has it.
func (e *Events) Exit(r Report) { e.say(event{Event: "exit", Code: &r.Code, Error: r.Text}) }
