package scope

import "strings"

// CanonicalISP spells an ISP: its id where one of its names is known ("中国电信", "China Telecom", "电信" and AS4134 are
// chinatelecom), else the folded name. Of a name with parts, such as "电信/基站WiFi", a known first part decides.
func CanonicalISP(name string) string {
	if id := ISPNamed(name); id != "" {
		return id
	}
	return Fold(name)
}

// ISPNamed returns the id of the ISP that a name or AS number stands for, or "" when it is none we know.
func ISPNamed(name string) string {
	folded := Fold(name)
	if id := ispByName[folded]; id != "" {
		return id
	}
	if digits, ok := strings.CutPrefix(folded, "as"); ok && digits != "" {
		if n, err := ParseASN(digits); err == nil && ispByASN[n] != "" {
			return ispByASN[n]
		}
	}
	first, _, _ := strings.Cut(name, "/")
	return ispByName[Fold(first)]
}

// ISPOfASN returns the id of the ISP that a well-known network belongs to, or "".
func ISPOfASN(asn uint32) string { return ispByASN[asn] }

var (
	isps      = compileNames(ispNames)
	ispByName = compileIndex(isps)
	ispByASN  = compileASN()
)

func compileASN() map[uint32]string {
	m := make(map[uint32]string, 256)
	for line := range strings.Lines(ispNetworks) {
		f := strings.Fields(line)
		for _, digits := range f[1:] {
			if n, err := ParseASN(digits); err == nil {
				m[n] = f[0]
			}
		}
	}
	return m
}

// ispNames: id, English, Chinese, other names found in data.
const ispNames = `chinatelecom|China Telecom|中国电信|电信|Chinanet|CN Telecom|CTCC|电信ADSL|电信宽带|电信数据中心|电信DNS服务器|天翼|Chinatelecom.com.cn
chinaunicom|China Unicom|中国联通|联通|Unicom|China Netcom|中国网通|网通|CNC|CUCC|CNCGROUP|联通宽带|联通数据中心|联通DNS服务器|Chinaunicom.com
chinamobile|China Mobile|中国移动|移动|CMNET|CMCC|移动宽带|移动数据中心|Chinamobile.com
cernet|CERNET|中国教育网|教育网|教育和科研计算机网|中国教育和科研计算机网|China Education and Research Network|CERNET2|edu.cn
chinabroadnet|China Broadnet|中国广电|广电|广电网|中国广播电视网络|有线电视|China Broadcasting Network|CBN|CBNET
drpeng|Dr. Peng|鹏博士|鹏博士宽带|长城宽带|长宽|GWBN|Great Wall Broadband|电信通|Dr Peng Telecom
cstnet|CSTNET|中国科技网|科技网|China Science and Technology Network
chinatietong|China TieTong|中国铁通|铁通|中移铁通|TieTong|CRTC|China Railcom
wasu|WASU|华数|华数宽带|华数传媒
topway|Topway|天威视讯|天威
cmi|China Mobile International|中国移动国际
alibaba|Alibaba Cloud|阿里云|阿里巴巴|Alibaba|Aliyun|Alibaba (US) Technology|Taobao|Alicloud
tencent|Tencent Cloud|腾讯云|腾讯|Tencent|QCloud
huawei|Huawei Cloud|华为云|华为|Huawei|Huawei Clouds
baidu|Baidu Cloud|百度云|百度|Baidu|百度智能云
bytedance|ByteDance|字节跳动|火山引擎|Volcano Engine
jdcloud|JD Cloud|京东云|京东|JD.com
ksyun|Kingsoft Cloud|金山云|Kingsoft
ucloud|UCloud|优刻得
netease|NetEase|网易|网易云
qiniu|Qiniu|七牛云|七牛
aws|Amazon Web Services|亚马逊云|亚马逊|Amazon|AWS|Amazon.com|Amazon数据中心|Amazon CloudFront|亚马逊数据中心
azure|Microsoft Azure|微软云|微软|Microsoft|Azure|Microsoft Corporation|Microsoft/Azure|微软数据中心
google|Google Cloud|谷歌云|谷歌|Google|Google LLC|GCP
cloudflare|Cloudflare|Cloudflare|Cloudflare节点|Cloudflare Warp节点
akamai|Akamai|阿卡迈|Akamai节点|Akamai Technologies|Akamai Technologies Inc
fastly|Fastly|Fastly|Fastly节点
linode|Linode|Linode|Linode LLC
oracle|Oracle Cloud|甲骨文云|甲骨文|Oracle|Oracle Corporation
ibm|IBM Cloud|IBM 云|SoftLayer
digitalocean|DigitalOcean|DigitalOcean|DigitalOcean LLC
ovh|OVHcloud|OVH|OVH SAS
hetzner|Hetzner|Hetzner|Hetzner Online
vultr|Vultr|Vultr|Choopa|The Constant Company
apple|Apple|苹果|Apple Inc
meta|Meta|Meta|Facebook|脸书
chunghwa|Chunghwa Telecom|中华电信|中華電信|HiNet
fetnet|Far EasTone|远传电信|遠傳電信
taiwanmobile|Taiwan Mobile|台湾大哥大|台灣大哥大
pccw|PCCW|电讯盈科|香港电讯|HKT|Netvigator
hkbn|HKBN|香港宽频
hgc|HGC|和记电讯|Hutchison Global Communications
ctm|CTM|澳门电讯|Companhia de Telecomunicacoes de Macau
ntt|NTT|日本电信电话|NTT Communications|NTT America|OCN
kddi|KDDI|KDDI|KDDI Corporation
softbank|SoftBank|软银|BBTEC|SoftBank Corp
kt|KT|韩国电信|Korea Telecom|KT Corporation
sk|SK Broadband|SK宽带|SK电讯|SK Telecom|SK
lguplus|LG U+|LG U+|LG Uplus|LG DACOM
comcast|Comcast|康卡斯特|Comcast Cable
att|AT&T|美国电话电报|ATT|AT&T Services
verizon|Verizon|威瑞森|Verizon Business
tmobile|T-Mobile|T-Mobile|T-Mobile US|T-Mobile USA
charter|Charter|特许通信|Charter Communications|Spectrum
cox|Cox|科进|Cox Communications
centurylink|Lumen|CenturyLink|Level3|Level 3|Lumen Technologies|Qwest
cogent|Cogent|Cogent|Cogentco|Cogent Communications
deutschetelekom|Deutsche Telekom|德国电信|DTE|DTAG
vodafone|Vodafone|沃达丰|Vodafone GmbH
orange|Orange|橘子电信|Orange S.A.
telefonica|Telefonica|西班牙电信|Telefónica|Movistar
bt|BT|英国电信|British Telecom|BTCC
telstra|Telstra|澳大利亚电信
singtel|Singtel|新加坡电信|Singapore Telecommunications
starlink|Starlink|星链|SpaceX
`

// ispNetworks: id and AS numbers, as the routing registries name their holders. Only networks whose customers are the
// ISP's, or the cloud's own: a number that is not here says nothing.
const ispNetworks = `chinatelecom 4134 4809 4811 4812 4813 4835 17638 17739 17799 17897 23650 23724 36678 58461 58466 58517 58563 134238
chinatelecom 134420 134425 134756 134761 134762 134763 134764 134766 134768 134769 134770 134772 134773 134774 136198
chinatelecom 136199 136200 137688 137689 137692 137693 137694 137695 137697 137699 137702 138169 138950 138982 139018
chinatelecom 139201 139203 139220 139462 139587 139721 139767 139887 140061 140083 140292 140308 140318 140319 140320
chinatelecom 140329 140330 140345 140485 140486 140527 140553 140636 140638 140647 141679 141739 141771 141998 142404
chinatelecom 147038
chinaunicom 4808 4837 9929 10099 10206 17621 17622 17623 17816 134542 134543 135061 136958 136959 137539 138421
chinaunicom 139007 140707 140716 140717 140726 140886 140979
chinamobile 9231 9808 24400 24444 24445 24547 38019 56040 56041 56042 56044 56045 56046 56047 56048 132510 132525
chinamobile 134810 137872 138407 139080
cernet 4538 23910 24348 24349 24350 24352 24353 24355 24356 24357 24358 24361 24362 24363 24364 24367 24369 24370
cernet 24371 24372
chinabroadnet 7641 59016 146788 146838
drpeng 17964
cstnet 7497
chinatietong 9394 24138 45057
wasu 24139
topway 17962
cmi 58453 58807
alibaba 24429 37963 45102 134963
tencent 45090 132203 132591 133478 137876
huawei 55990 63727 131444 136907 141180 149167 206204 206798 265443
baidu 38365 38627 55967 63288 133746 199506
bytedance 137718 138699 396986
jdcloud 131486
ksyun 59019
ucloud 59077 135377
aws 7224 8987 14618 16509 62785
azure 3598 8068 8069 8070 8071 8075 12076 35106 45139 58862 59067 200517
google 15169 16591 19527 36040 36384 36492 41264 43515 139070 139190 394639 396982
cloudflare 13335 132892 202623 203898 209242 394536 395747
akamai 12222 16625 18680 18717 20940 21342 24319 31108 32787 33905 34164 35204 35994 36183 43639 49846 55770 63949
fastly 54113
oracle 14544 20054 31898
ibm 36351
digitalocean 14061 46652 393406
ovh 16276 35540
hetzner 24940 212317 213230
vultr 20473
apple 714 6185
meta 32934 54115 63293
chunghwa 3462 9680
fetnet 9674
taiwanmobile 9924 24158
pccw 3491 4760
hkbn 9269 9381 10103
hgc 9304
ctm 4609
ntt 2914 4713 9605
kddi 2516
softbank 4725 17676
kt 4766
sk 9318 9644
lguplus 3786 17853 17858
comcast 7015 7016 7922 13367 20214 33287 33490 33491 33650 33651 33657 33659 33660 33662 33667 33668
att 6389 7018 20057
verizon 701 702 703 6167 22394
tmobile 21928
charter 7843 10796 11351 11426 11427 12271 20001 20115 33363
cox 22773
centurylink 209 3356 3549 22561
cogent 174
deutschetelekom 3320
vodafone 1273 3209 12430 30722
orange 3215 5511
telefonica 3352 12956
bt 2856 5400
telstra 1221 4637
singtel 7473 9506
starlink 14593
`
