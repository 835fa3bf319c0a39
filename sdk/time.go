package sdk

// FormatTime returns a time in UTC, from 1970 on and given in Unix milliseconds, in a format with some of the conversions of
// strftime: %Y, %m, %d, %H, %M, %S, %a and %b for names in English, %s for Unix seconds, %L for milliseconds, and %%. All else
// stays as it is. Package time would be most of a plugin.
//
//go:noinline
func FormatTime(millis int64, format string) string {
	seconds := millis / 1000
	days, rest := seconds/86400, seconds%86400
	year, month, day := civil(days)
	b := make([]byte, 0, len(format)+32)
	from := 0 // what is before it has been appended
	for i := 0; i+1 < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		b = append(b, format[from:i]...)
		i++
		from = i + 1
		switch format[i] {
		case 'Y':
			b = digits(b, year, 4)
		case 'm':
			b = digits(b, month, 2)
		case 'd':
			b = digits(b, day, 2)
		case 'H':
			b = digits(b, rest/3600, 2)
		case 'M':
			b = digits(b, rest/60%60, 2)
		case 'S':
			b = digits(b, rest%60, 2)
		case 'L':
			b = digits(b, millis%1000, 3)
		case 's':
			b = digits(b, seconds, 1)
		case 'a':
			weekday := days % 7 * 3 // 1 January 1970 was a Thursday
			b = append(b, "ThuFriSatSunMonTueWed"[weekday:weekday+3]...)
		case 'b':
			b = append(b, "JanFebMarAprMayJunJulAugSepOctNovDec"[month*3-3:month*3]...)
		case '%':
			from = i
		default:
			from = i - 1
		}
	}
	return string(append(b, format[from:]...))
}

// civil returns the date of a day since 1 January 1970 in the Gregorian calendar. It counts years from March, so that a leap
// day is the last of its year.
func civil(days int64) (year, month, day int64) {
	days += 719468 // from 1 March 0000
	era, of := days/146097, days%146097
	y := (of - of/1460 + of/36524 - of/146096) / 365
	of -= 365*y + y/4 - y/100
	m := (5*of + 2) / 153
	year, month, day = era*400+y, m+3, of-(153*m+2)/5+1
	if month > 12 {
		year, month = year+1, month-12
	}
	return year, month, day
}

// digits appends n with at least width digits.
//
//go:noinline
func digits(b []byte, n int64, width int) []byte {
	var text [20]byte
	i := len(text)
	for n > 0 || len(text)-i < width {
		i--
		text[i] = byte('0' + n%10)
		n /= 10
	}
	return append(b, text[i:]...)
}
