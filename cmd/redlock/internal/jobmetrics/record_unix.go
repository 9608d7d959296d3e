//go:build darwin || freebsd || linux

package jobmetrics

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/promfile"
)

// Start writes in the background that the command was started at that time. Record returns the error of that.
func (f *File) Start(at time.Time) {
	f.start, f.started = at, make(chan outcome, 1)
	go func() { f.started <- f.update(at, func(v values) { v.start(at) }) }()
}

// Record adds an attempt to the file. It returns in time, whatever the folder is like. A start is never written behind the end.
func (f *File) Record(a Attempt) error {
	return promfile.Within(f.Dir, func() error {
		var before outcome
		start := a.Ended.Add(-a.Ran)
		if f.started != nil {
			start, before = f.start, <-f.started
		}
		now := f.update(a.Ended, func(v values) {
			if a.Started && !before.written {
				v.start(start)
			}
			v.add(a, start)
		})
		if before.err != nil && now.err != nil && before.err.Error() == now.err.Error() {
			before.err = nil
		}
		return errors.Join(before.err, now.err)
	})
}

// update changes the values of the file.
func (f *File) update(now time.Time, change func(values)) outcome {
	path := filepath.Join(f.Dir, fileName(f.Name))
	var reset error
	err := promfile.Update(path, func() ([]byte, error) {
		var v values
		if v, reset = read(path, f.Name); reset != nil {
			reset, v = fmt.Errorf("the counters begin anew: %s: %w", path, reset), values{}
		}
		v.prepare(now, f.Every)
		change(v)
		return v.text(f.Name)
	})
	return outcome{err == nil, errors.Join(reset, err)}
}

// read returns the values that the last attempt has left; none if there is no file.
func read(path, name string) (values, error) {
	text, err := promfile.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return values{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(text, name)
}
