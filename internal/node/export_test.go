package node

import "io"

// MaxReply bounds one reply.
const MaxReply = maxReply

// Value is a value as the reader returns it.
type Value struct {
	Kind  byte
	Num   int64
	Text  string
	Items []Value
}

// ReadAll reads values until the first error. It returns them and the error.
func ReadAll(in io.Reader) (values []Value, err error) {
	r := newReader(in, "")
	for {
		v, err := r.read()
		if err != nil {
			return values, err
		}
		values = append(values, exported(v))
	}
}

// SkipAll reads values until the first error, and returns how many there were.
func SkipAll(in io.Reader) (n int) {
	r := newReader(in, "")
	for {
		if _, err := r.read(); err != nil {
			return n
		}
		n++
	}
}

func exported(v value) Value {
	e := Value{Kind: v.kind, Num: v.num, Text: string(v.text)}
	for _, item := range v.items {
		e.Items = append(e.Items, exported(item))
	}
	return e
}
