package configs

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written 512MiB, 20GiB, 1GB or as plain bytes.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"PiB", 1 << 50},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"PB", 1e15},
	{"B", 1},
}

// ParseSize reads a size: a decimal number and B, kB, MB, GB, TB, PB (powers
// of 1000), KiB, MiB, GiB, TiB, PiB (powers of 1024) or nothing (bytes). It
// must come to a whole, non-negative number of bytes.
func ParseSize(s string) (Size, error) {
	number, unit := strings.TrimSpace(s), int64(1)
	for _, u := range sizeUnits {
		if head, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(head), u.bytes
			break
		}
	}
	if number == "" || len(number) > 32 || strings.Trim(number, "0123456789.") != "" {
		return 0, fmt.Errorf("must be a size such as 512MiB or 20GiB")
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("must be a size such as 512MiB or 20GiB")
	}
	r.Mul(r, new(big.Rat).SetInt64(unit))
	if !r.IsInt() || !r.Num().IsInt64() {
		return 0, fmt.Errorf("must be a whole number of bytes below 8 EiB")
	}
	return Size(r.Num().Int64()), nil
}

// String writes the size in the largest unit that holds it exactly.
func (s Size) String() string {
	for i := 4; i >= 0; i-- {
		if u := sizeUnits[i]; s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// Share is a part of a whole, from 0 up; 1 is all of it. It is written 5% or
// 0.05.
type Share float64

// ParseShare reads 5% or 0.05.
func ParseShare(s string) (Share, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
		return 0, fmt.Errorf("must be a share such as 5%% or 0.05")
	}
	if percent {
		f /= 100
	}
	return Share(f), nil
}

// String writes the share in percent.
func (s Share) String() string {
	return strconv.FormatFloat(float64(s)*100, 'g', 6, 64) + "%"
}

// maxDuration keeps sums of settings far from overflow.
const maxDuration = 20 * 365 * 24 * time.Hour

// ParseDuration reads a Go duration whose units may also be d, a day of 24
// hours: 30s, 1h30m, 30d, 1d12h. It is at most 20 years of 365 days.
func ParseDuration(s string) (time.Duration, error) {
	bad := fmt.Errorf("must be a duration such as 30s, 5h or 30d")
	rest := strings.TrimSpace(s)
	if rest == "0" {
		return 0, nil
	}
	negative := strings.HasPrefix(rest, "-")
	rest = strings.TrimPrefix(rest, "-")
	if rest == "" {
		return 0, bad
	}
	var total time.Duration
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		unit := len(rest[digits:]) - len(strings.TrimLeft(rest[digits:], "dhmsnuµμ"))
		if digits == 0 || unit == 0 {
			return 0, bad
		}
		term, err := parseTerm(rest[:digits], rest[digits:digits+unit])
		if err != nil {
			return 0, bad
		}
		if term > maxDuration-total {
			return 0, fmt.Errorf("must be a duration of at most %s", FormatDuration(maxDuration))
		}
		total, rest = total+term, rest[digits+unit:]
	}
	if negative {
		total = -total
	}
	return total, nil
}

// parseTerm reads one number with its unit.
func parseTerm(number, unit string) (time.Duration, error) {
	if unit != "d" {
		return time.ParseDuration(number + unit)
	}
	d, err := time.ParseDuration(number + "h")
	if err != nil {
		return 0, err
	}
	return min(d, maxDuration/24+1) * 24, nil // what is over the bound stays over it
}

// FormatDuration writes a duration the way people write it in the file: 30d,
// 36h, 5h, 1h30m, 90s.
func FormatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0 && d != math.MinInt64:
		return "-" + FormatDuration(-d)
	case d >= 2*day && d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d >= time.Minute && d < time.Hour && d%time.Minute != 0 && d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	s := d.String()
	if d%time.Minute == 0 && d >= time.Minute {
		s = strings.TrimSuffix(s, "0s")
	}
	if d%time.Hour == 0 && d >= time.Hour {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
