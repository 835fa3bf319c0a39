package contract

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
	for i := 0; i < len(format); i++ {
		literal, n, width := format[i:i+1], int64(0), 0
		if literal == "%" && i+1 < len(format) {
			i++
			switch format[i] {
			case 'Y':
				n, width = year, 4
			case 'm':
				n, width = month, 2
			case 'd':
				n, width = day, 2
			case 'H':
				n, width = rest/3600, 2
			case 'M':
				n, width = rest/60%60, 2
			case 'S':
				n, width = rest%60, 2
			case 'L':
				n, width = millis%1000, 3
			case 's':
				n, width = seconds, 1
			case 'a':
				weekday := days % 7 * 3 // 1 January 1970 was a Thursday
				literal = "ThuFriSatSunMonTueWed"[weekday : weekday+3]
			case 'b':
				literal = "JanFebMarAprMayJunJulAugSepOctNovDec"[month*3-3 : month*3]
			case '%':
			default:
				literal = format[i-1 : i+1]
			}
		}
		if width > 0 {
			literal = decimal(n, width)
		}
		b = append(b, literal...)
	}
	return string(b)
}

// civil returns the date of a day since 1 January 1970 in the Gregorian calendar. It counts years from March, so that a leap
// day is the last of its year.
func civil(days int64) (year, month, day int64) {
	days += 719468 // from 1 March 0000
	era, rest := days/146097, days%146097
	y := (rest - rest/1460 + rest/36524 - rest/146096) / 365
	rest -= 365*y + y/4 - y/100
	m := (5*rest + 2) / 153
	year, month, day = era*400+y, m+3, rest-(153*m+2)/5+1
	if month > 12 {
		year, month = year+1, month-12
	}
	return year, month, day
}

// decimal returns a number that is not negative with at least width digits.
//
//go:noinline
func decimal(n int64, width int) string {
	var text [20]byte
	i := len(text)
	for n > 0 || len(text)-i < width {
		i--
		text[i] = byte('0' + n%10)
		n /= 10
	}
	return string(text[i:])
}
