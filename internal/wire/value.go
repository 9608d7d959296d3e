package wire

import (
	"fmt"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Value is one value of RESP2 or RESP3, see
// https://redis.io/docs/latest/develop/reference/protocol-spec/
type Value struct {
	// Kind is the first byte of the value in RESP3. Nulls of RESP2 are '_', and so are texts that were dropped.
	Kind   byte
	hidden bool  // it repeats the password, so that no error may quote it
	Num    int64 // the number of ':'
	// Text is the text of '$', '=' and '!', or the rest of a line that is not an integer, behind its kind. It is valid
	// until the next read.
	Text []byte
	// Items are the values of '*', '~' and '>', and the keys and values of '%'. They are valid until the next read.
	Items []Value
}

// IsOK reports whether the value is the reply OK.
func (v *Value) IsOK() bool { return v.Kind == '+' && string(v.Text) == "OK" }

// IsText reports whether the value is a bulk string.
func (v *Value) IsText() bool { return v.Kind == '$' || v.Kind == '=' }

// Refusal returns the error that an error reply stands for; nil for any other value.
func (v *Value) Refusal() *nodeerr.ServerError {
	if v.Kind != '-' && v.Kind != '!' {
		return nil
	}
	e := NewServerError(string(v.Text))
	if v.hidden {
		if e.Hint == "" { // it is no known code, so it may be part of the repetition
			e.Code = "ERR"
		}
		e.Message = e.Code + " (" + hiddenText + ")"
	}
	return e
}

// hiddenText takes the place of a text of the server that repeats the password.
const hiddenText = "a text that repeats the password"

// Size returns about how many bytes of memory the value takes.
func (v *Value) Size() int {
	size := valueSize + len(v.Text)
	for i := range v.Items {
		size += v.Items[i].Size()
	}
	return size
}

// String renders an unexpected value within the bounds of an error message.
func (v *Value) String() string {
	if v.hidden {
		return hiddenText
	}
	switch v.Kind {
	case '*', '~', '%', '>':
		return fmt.Sprintf("an array of %d values", len(v.Items))
	case ':':
		return fmt.Sprint(v.Num)
	case '_':
		return "null"
	}
	return fmt.Sprintf("%.80q", v.Text)
}
