package main

import (
	"slices"
	"strings"
	"unicode"

	"github.com/fatih/color"
)

// maxShown is how many columns a table has for the metadata of a holder, which is enough for that of run as a rule.
const maxShown = 64

// textWidth returns how many columns of a terminal a visible text takes.
func textWidth(text string) (columns int) {
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0 // is above or below the character before
	case r >= 0xff61 && r <= 0xffdc: // halfwidth forms
		return 1
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul),
		r >= 0x3000 && r <= 0x303e, r >= 0xff01 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff: // CJK punctuation, fullwidth forms, emoji
		return 2
	}
	return 1
}

// clip shortens a visible text to a number of columns.
func clip(text string, columns int) string {
	if textWidth(text) <= columns {
		return text
	}
	width := 0
	for i, r := range text {
		if width += runeWidth(r); width > columns-1 {
			return text[:i] + "…"
		}
	}
	return text
}

// wrap breaks a visible text into lines of a number of columns, at spaces if it can.
func wrap(text string, columns int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case textWidth(line)+1+textWidth(word) > columns:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// table returns the lines of a table, with dim titles above rows that color returns the color of.
func table(titles []column, rows [][]string, color func(row int) *color.Color) (lines []line) {
	for i, text := range tableLines(titles, rows) {
		l := line{text, dim}
		if i > 0 {
			l.color = color(i - 1)
		}
		lines = append(lines, l)
	}
	return lines
}

// column is a column of a table.
type column struct {
	title string
	right bool // aligned to the right, as numbers are
}

// tableLines returns the lines of a table, the first of which has the titles. It leaves out columns that are empty.
func tableLines(titles []column, rows [][]string) []string {
	all := make([][]string, 1+len(rows))
	var left []int
	for i, c := range titles {
		if !slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "" }) {
			continue
		}
		if !c.right {
			left = append(left, len(all[0]))
		}
		all[0] = append(all[0], c.title)
		for j, row := range rows {
			all[1+j] = append(all[1+j], row[i])
		}
	}
	return columns(all, left...)
}
