package protocol_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// Package redlock converts the answers of package quorum by their numbers.
func TestAnswer_HasTheNumberAndTheNameOfThatOfTheProtocol(t *testing.T) {
	answers := map[quorum.Answer]protocol.Answer{
		quorum.Yes: protocol.AnswerYes, quorum.No: protocol.AnswerNo, quorum.Recreated: protocol.AnswerRecreated,
		quorum.Unknown: protocol.AnswerUnknown, quorum.Refused: protocol.AnswerRefused, quorum.Unsent: protocol.AnswerUnsent,
	}
	for answer, want := range answers {
		assert.Equal(t, want, protocol.Answer(answer), "%v", answer)
		assert.Equal(t, answer.String(), want.String())
	}
	beyond := quorum.Answer(len(answers) + 1) // Pending is before them
	assert.Equal(t, beyond.String(), protocol.Answer(beyond).String(), "there is one that has no protocol.Answer")
	assert.Equal(t, "Answer(0)", protocol.Answer(0).String())
}
