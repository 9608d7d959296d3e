package supervise

import (
	"encoding/json"
	"io"
	"strings"
	"time"
)

// event is something that has happened to the lock or the command. As JSON it is documented in docs/tool.md.
type event struct {
	Event     string `json:"event"`
	Time      string `json:"time"`
	Name      string `json:"name"`
	Lock      string `json:"lock,omitempty"` // with several, the one that it is about
	Token     string `json:"token,omitempty"`
	Fence     uint64 `json:"fence,omitempty"`
	Validity  *int64 `json:"validity_ms,omitempty"`
	Holder    string `json:"holder,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Processes int    `json:"processes,omitempty"`
	Command   string `json:"command,omitempty"`
	Signal    string `json:"signal,omitempty"`
	Code      *int   `json:"code,omitempty"`
	Error     string `json:"error,omitempty"`
}

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
	lines         chan line
	done          chan struct{}
}

// line is what is printed next, or nothing.
type line struct {
	text    string
	printed chan struct{} // closed when all before it is printed, if somebody waits for that
}

// flushTime is how long flush waits at most.
const flushTime = 100 * time.Millisecond

// NewEvents prints events about the lock of a name: as JSON, or as text; without verbose only warnings.
func NewEvents(w io.Writer, name string, json, verbose bool) *Events {
	e := &Events{name, json, verbose, make(chan line, 64), make(chan struct{})}
	go func() {
		defer close(e.done)
		for l := range e.lines {
			if l.printed != nil {
				close(l.printed)
				continue
			}
			_, _ = io.WriteString(w, l.text) // nobody to tell
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

// flush returns when all events are printed, or soon if nobody reads them. Those of another process then come behind them.
func (e *Events) flush() {
	printed := make(chan struct{})
	select {
	case e.lines <- line{printed: printed}:
	default:
		return
	}
	select {
	case <-printed:
	case <-time.After(flushTime):
	}
}

// say prints an event with --verbose or --json.
func (e *Events) say(what event, text string) {
	if e.json || e.verbose {
		e.warn(what, text)
	}
}

// warn prints an event in any case: as a sentence for people, in which what comes from elsewhere is quoted, or as JSON. An event
// without text is printed as JSON only.
func (e *Events) warn(what event, text string) {
	what.Name, what.Time = e.name, time.Now().UTC().Format(timeFormat)
	printed := "redlock: " + strings.ReplaceAll(text, "\n", "\nredlock: ")
	if e.json {
		object, _ := json.Marshal(what) // text and numbers always succeed
		printed = string(object)
	} else if text == "" {
		return
	}
	select {
	case e.lines <- line{text: printed + "\n"}:
	default:
	}
}

// Exit reports the exit code, and why it is that. Only JSON has it.
func (e *Events) Exit(r Report) { e.say(event{Event: "exit", Code: &r.Code, Error: r.Text}, "") }

// Metrics says what is wrong with the metrics about a run.
func (e *Events) Metrics(problem string) {
	e.warn(event{Event: "metrics", Error: problem}, "metrics: "+problem)
}
