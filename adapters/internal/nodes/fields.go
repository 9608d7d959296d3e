package nodes

import (
	"fmt"
	"maps"
	"reflect"
)

// Decision says what becomes of a field of options: it is carried over, has no effect, or is refused with this reason.
type Decision string

const (
	// Carried is for fields that are carried over, or that are checked elsewhere.
	Carried Decision = "carried over"
	// NoEffect is for fields that have no meaning for the one connection of a node.
	NoEffect Decision = "no effect"
)

// Decisions has a decision for each field of options, also for private fields, which the client sets. A field of a struct in
// them has its name behind a dot. Sub-structs that are decided as a whole have no such fields.
type Decisions map[string]Decision

// And returns all decisions of both.
func (d Decisions) And(others Decisions) Decisions {
	all := maps.Clone(d)
	maps.Copy(all, others)
	return all
}

// Check returns an error for the first field of a struct that is set and refused, or exported and unknown: newer versions of
// the client may have more fields.
func (d Decisions) Check(options any) error { return d.check("", reflect.ValueOf(options)) }

func (d Decisions) check(prefix string, options reflect.Value) error {
	for i := range options.NumField() {
		field := options.Type().Field(i)
		name, value := prefix+field.Name, options.Field(i)
		decision, known := d[name]
		switch {
		case !known && !field.IsExported(), decision == Carried, decision == NoEffect:
		case !known && field.Type.Kind() == reflect.Struct:
			if err := d.check(name+".", value); err != nil {
				return err
			}
		case value.IsZero():
		case !known:
			return fmt.Errorf("%s: this version of the adapter does not know it", name)
		default:
			return fmt.Errorf("%s: %s", name, decision)
		}
	}
	return nil
}

// Undecided returns the fields of a struct that have no decision, and decisions of which there is no field. It is for tests.
func (d Decisions) Undecided(options reflect.Type) (names []string) {
	seen := map[string]bool{}
	d.undecided("", options, func(name string) {
		if seen[name] = true; d[name] == "" {
			names = append(names, name)
		}
	})
	for name := range d {
		if !seen[name] {
			names = append(names, name+" (there is no such field)")
		}
	}
	return names
}

func (d Decisions) undecided(prefix string, options reflect.Type, each func(string)) {
	for i := range options.NumField() {
		field := options.Field(i)
		name := prefix + field.Name
		if d[name] == "" && field.Type.Kind() == reflect.Struct {
			d.undecided(name+".", field.Type, each)
		} else {
			each(name)
		}
	}
}
