package main

import (
	"errors"
	"os"
)

// checkWritable returns an error if a file cannot be written, so that no result is lost because of
// that. It leaves the file as it is.
func checkWritable(path string) error {
	info, missing := os.Stat(path)
	if missing == nil && !info.Mode().IsRegular() {
		return nil // a pipe would notice
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err // which names the file
	}
	err = file.Close()
	if missing != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// writeFiles writes the files that are asked for.
func (c *benchCmd) writeFiles(r *report) error {
	var failed []error
	for path, render := range map[string]func(*report) ([]byte, error){c.HTML: page, c.SVG: drawing} {
		if path != "" {
			content, err := render(r)
			if err == nil {
				err = os.WriteFile(path, content, 0o644)
			}
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
