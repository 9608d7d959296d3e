package event_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Package redlock converts the answers of package quorum by their numbers.
func TestAnswer_HasTheNumberAndTheNameOfThatOfTheProtocol(t *testing.T) {
	answers := map[quorum.Answer]event.Answer{
		quorum.Yes: event.AnswerYes, quorum.No: event.AnswerNo, quorum.Recreated: event.AnswerRecreated,
		quorum.Unknown: event.AnswerUnknown, quorum.Refused: event.AnswerRefused, quorum.Unsent: event.AnswerUnsent,
	}
	for answer, want := range answers {
		assert.Equal(t, want, event.Answer(answer), "%v", answer)
		assert.Equal(t, answer.String(), want.String())
	}
	beyond := quorum.Answer(len(answers) + 1) // Pending is before them
	assert.Equal(t, beyond.String(), event.Answer(beyond).String(), "there is one that has no event.Answer")
	assert.Equal(t, "Answer(0)", event.Answer(0).String())
}
