package scope

// Label returns what people call a value of a field (continent, country, province, city, isp or asn) in English and in
// Chinese; country is the one a province is in. Both are "" for what has no better name than its id.
func Label(field, country, id string) (en, zh string) {
	var e entry
	switch field {
	case keyContinent:
		e = continentLabels[id]
	case keyCountry:
		e = countryLabels[id]
	case keyProvince:
		e = provinceLabels[country][id]
	case keyISP:
		e = ispLabels[id]
	}
	return e.en, e.zh
}

var (
	continentLabels = compileLabels(compileNames(continentNames))
	countryLabels   = compileLabels(countries)
	provinceLabels  = compileProvinceLabels()
	ispLabels       = compileLabels(isps)
)

func compileProvinceLabels() map[string]map[string]entry {
	m := make(map[string]map[string]entry, len(provinces))
	for country, list := range provinces {
		m[country] = compileLabels(list)
	}
	return m
}

const continentNames = `AF|Africa|非洲
AN|Antarctica|南极洲
AS|Asia|亚洲
EU|Europe|欧洲
NA|North America|北美洲
OC|Oceania|大洋洲
SA|South America|南美洲
`
