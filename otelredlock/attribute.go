package otelredlock

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/quorumlock/quorumlock/internal/outcome"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// Attributes beside those of the semantic conventions. Durations are in seconds.
const (
	keyOperation  = attribute.Key("redlock.operation")
	keyCall       = attribute.Key("redlock.call")
	keyOutcome    = attribute.Key("redlock.outcome")
	keyName       = attribute.Key("redlock.name")
	keyKind       = attribute.Key("redlock.kind")
	keyRounds     = attribute.Key("redlock.rounds")
	keyReentered  = attribute.Key("redlock.reentered")
	keyHandoff    = attribute.Key("redlock.handoff")
	keyValidity   = attribute.Key("redlock.validity")
	keyLeft       = attribute.Key("redlock.validity_left")
	keyFence      = attribute.Key("redlock.fence")
	keyGranted    = attribute.Key("redlock.fence.granted")
	keyNode       = attribute.Key("redlock.node")
	keyAnswer     = attribute.Key("redlock.answer")
	keyDuration   = attribute.Key("redlock.duration")
	keyError      = attribute.Key("redlock.error")
	keySplit      = attribute.Key("redlock.split")
	keyEnd        = attribute.Key("redlock.end")
	keyRenewal    = attribute.Key("redlock.renewal")
	keyRenewals   = attribute.Key("redlock.renewals")
	keyFailed     = attribute.Key("redlock.renewals.failed")
	keyLeftOut    = attribute.Key("redlock.events_left_out")
	keyIncomplete = attribute.Key("redlock.incomplete")
	keyDirection  = attribute.Key("redlock.direction")
)

// server returns the attributes of a node's address.
func server(addr string) []attribute.KeyValue {
	host, text, err := net.SplitHostPort(addr)
	port, notNumber := strconv.Atoi(text)
	if err != nil || notNumber != nil {
		return []attribute.KeyValue{semconv.ServerAddress(valid(addr))} // a socket's path, or what the program calls the node
	}
	return []attribute.KeyValue{semconv.ServerAddress(host), semconv.ServerPort(port)}
}

// answerErrors are the values of error.type for the reasons why single nodes did not answer.
var answerErrors = []struct {
	err  error
	name string
}{
	{nodeerr.ErrTimeout, "timeout"},
	{nodeerr.ErrSuspended, "suspended"},
	{nodeerr.ErrOverloaded, "busy"},
	{nodeerr.ErrBroken, "broken"},
	{nodeerr.ErrQuarantined, "quarantined"},
	{nodeerr.ErrClosed, outcome.Closed},
	{nodeerr.ErrProtocol, "protocol"},
	{nodeerr.ErrOldServer, "old_server"},
	{nodeerr.ErrSentinel, "sentinel"},
}

// answerAttributes returns the attributes of an answer beside those of its command. An answer that the server gave is no error,
// whatever it is; an error of the server is named by its code, such as READONLY.
func answerAttributes(e protocol.Vote) []attribute.KeyValue {
	attrs := []attribute.KeyValue{keyNode.Int(e.Node), keyAnswer.String(e.Answer.String())}
	if e.Err == nil {
		return attrs
	}
	attrs = append(attrs, keyError.String(text(e.Err)))
	if !missing(e.Answer) {
		return attrs
	}
	var refused *nodeerr.ServerError
	var unconnected *nodeerr.ConnectError
	if errors.As(e.Err, &refused) && refused.Code != "" {
		code := valid(refused.Code)
		return append(attrs, semconv.ErrorTypeKey.String(code), semconv.DBResponseStatusCode(code))
	}
	for _, known := range answerErrors {
		if errors.Is(e.Err, known.err) && (known.err != nodeerr.ErrTimeout || !errors.As(e.Err, &unconnected)) { //nolint:errorlint // the element is meant
			return append(attrs, semconv.ErrorTypeKey.String(known.name))
		}
	}
	if errors.As(e.Err, &unconnected) {
		return append(attrs, semconv.ErrorTypeKey.String("not_connected"))
	}
	return append(attrs, semconv.ErrorTypeOther)
}

// missing reports whether an answer is none: an error in the place of what the node was asked for.
func missing(a protocol.Answer) bool {
	return a != protocol.AnswerYes && a != protocol.AnswerNo && a != protocol.AnswerRecreated
}

// describe returns the text of an error of a call, which must not have the name of the lock.
func describe(err error, name string) string {
	var refusal *redlock.QuorumError
	loss := errors.Is(err, redlock.ErrLost)
	if !errors.As(err, &refusal) || loss && !errors.Is(refusal.Reason, redlock.ErrGone) { // it is the last renewal before a loss
		return strings.ReplaceAll(text(err), fmt.Sprintf(" %q", name), "")
	}
	var b strings.Builder
	if cause := outcome.GaveUp(err); cause != nil {
		b.WriteString(cause.Error() + ": ")
	}
	yes := 0
	for _, n := range refusal.Nodes {
		if n.Err == nil {
			yes++
		}
	}
	fmt.Fprintf(&b, "%s: %d of %d nodes said yes, %d needed", text(refusal.Reason), yes, len(refusal.Nodes), refusal.Need)
	for _, n := range refusal.Nodes {
		if n.Err != nil {
			fmt.Fprintf(&b, "; %s: %s", n.Addr, text(n.Err))
		}
	}
	return b.String()
}

var prefixes = strings.NewReplacer("redlock: ", "", "pool: ", "")

func text(err error) string { return valid(prefixes.Replace(err.Error())) }

// valid returns a text as attributes may have it: exporters refuse what is not UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// set is a set of attributes in the forms that instruments take.
type set struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newSet(attrs ...attribute.KeyValue) set {
	option := metric.WithAttributeSet(attribute.NewSet(attrs...))
	return set{[]metric.AddOption{option}, []metric.RecordOption{option}}
}

// sets are sets that are made once.
type sets[K comparable] struct {
	attributes func(K) []attribute.KeyValue

	mu   sync.RWMutex
	made map[K]set
}

func newSets[K comparable](attributes func(K) []attribute.KeyValue) *sets[K] {
	return &sets[K]{attributes: attributes, made: map[K]set{}}
}

func (s *sets[K]) of(key K) set {
	s.mu.RLock()
	made, ok := s.made[key]
	s.mu.RUnlock()
	if ok {
		return made
	}
	made = newSet(s.attributes(key)...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[key] = made
	return made
}
