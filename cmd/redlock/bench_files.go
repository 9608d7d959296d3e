package main

import (
	"errors"
	"fmt"
	"os"
)

// benchFile is one that a report is written to. It is there before the measurement, so
// that nothing is lost because it cannot be.
type benchFile struct {
	*os.File
	render func(*report) ([]byte, error)
	fresh  bool // it was not there before, and has nothing in it
}

type benchFiles []*benchFile

// openFiles opens those that are asked for. What is in them stays until write.
func openFiles(html, svg string) (benchFiles, error) {
	var files benchFiles
	for _, f := range []struct {
		flag, path string
		render     func(*report) ([]byte, error)
	}{{"--html", html, page}, {"--svg", svg, drawing}} {
		if f.path == "" {
			continue
		}
		_, missing := os.Stat(f.path)
		file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", f.flag, err), files.close())
		}
		files = append(files, &benchFile{File: file, render: f.render, fresh: missing != nil})
	}
	return files, nil
}

// write puts the report into every file.
func (files benchFiles) write(r *report) error {
	var failed []error
	for _, f := range files {
		content, err := f.render(r)
		if err == nil {
			_ = f.Truncate(0) // fails for what has no length, such as a pipe
			_, err = f.Write(content)
			f.fresh = false
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// close closes the files, and takes away those that it made and that have remained empty.
func (files benchFiles) close() error {
	var failed []error
	for _, f := range files {
		failed = append(failed, f.Close())
		if f.fresh {
			failed = append(failed, os.Remove(f.Name()))
		}
	}
	return errors.Join(failed...)
}
