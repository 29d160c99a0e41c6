"""The words of the toy translation problem, as a dictionary would print them.

Every line is one entry, English on the left of the bar and German on its right. The classes at
the end of a line (person, food, place ...) keep sentences sensible: a verb names the classes that
it takes. An English word has one German translation; where it has two, the grammar decides
("know" with an object is `kennen`, with a that-clause `wissen`). `toy_lexicon` reads the tables.
"""

NOUNS = """
man, men | der Mann, Männer, Mannes | person
woman, women | die Frau, Frauen | person
child, children | das Kind, Kinder, Kindes | person
girl, girls | das Mädchen, Mädchen, Mädchens | person
boy, boys | der Junge, Jungen, Jungen | person
teacher, teachers | der Lehrer, Lehrer, Lehrers | person
doctor, doctors | der Arzt, Ärzte, Arztes | person
waitress, waitresses | die Kellnerin, Kellnerinnen | person
student, students | der Student, Studenten, Studenten | person
neighbor, neighbors | der Nachbar, Nachbarn, Nachbarn | person
colleague, colleagues | der Kollege, Kollegen, Kollegen | person
actress, actresses | die Schauspielerin, Schauspielerinnen | person
uncle, uncles | der Onkel, Onkel, Onkels | person
aunt, aunts | die Tante, Tanten | person
brother, brothers | der Bruder, Brüder, Bruders | person
sister, sisters | die Schwester, Schwestern | person
daughter, daughters | die Tochter, Töchter | person
son, sons | der Sohn, Söhne, Sohnes | person
guest, guests | der Gast, Gäste, Gastes | person

dog, dogs | der Hund, Hunde, Hundes | animal
cat, cats | die Katze, Katzen | animal
horse, horses | das Pferd, Pferde, Pferdes | animal
bird, birds | der Vogel, Vögel, Vogels | animal
mouse, mice | die Maus, Mäuse | animal
cow, cows | die Kuh, Kühe | animal
bear, bears | der Bär, Bären, Bären | animal
pig, pigs | das Schwein, Schweine, Schweins | animal

apple, apples | der Apfel, Äpfel, Apfels | food piece
pear, pears | die Birne, Birnen | food piece
tomato, tomatoes | die Tomate, Tomaten | food piece
potato, potatoes | die Kartoffel, Kartoffeln | food piece cooked
egg, eggs | das Ei, Eier, Eis | food piece cooked
cake, cakes | der Kuchen, Kuchen, Kuchens | food piece baked
roll, rolls | das Brötchen, Brötchen, Brötchens | food piece baked
bread | das Brot, -, Brotes | food baked mass
cheese | der Käse, -, Käses | food mass
meat | das Fleisch, -, Fleisches | food cooked mass
soup | die Suppe, - | food cooked mass
rice | der Reis, -, Reises | food cooked mass
milk | die Milch, - | drink mass
coffee | der Kaffee, -, Kaffees | drink mass
tea | der Tee, -, Tees | drink mass
water | das Wasser, -, Wassers | drink mass
juice | der Saft, -, Saftes | drink mass

book, books | das Buch, Bücher, Buches | thing text gift flat
letter, letters | der Brief, Briefe, Briefes | thing text gift flat
newspaper, newspapers | die Zeitung, Zeitungen | thing text gift flat
picture, pictures | das Bild, Bilder, Bildes | thing gift flat
key, keys | der Schlüssel, Schlüssel, Schlüssels | thing gift flat
knife, knives | das Messer, Messer, Messers | thing gift flat
flower, flowers | die Blume, Blumen | thing gift flat
bag, bags | die Tasche, Taschen | thing gift opening
box, boxes | die Kiste, Kisten | thing gift opening
bottle, bottles | die Flasche, Flaschen | thing gift opening
window, windows | das Fenster, Fenster, Fensters | opening
door, doors | die Tür, Türen | opening
table, tables | der Tisch, Tische, Tisches | surface
chair, chairs | der Stuhl, Stühle, Stuhls | surface
shelf, shelves | das Regal, Regale, Regals | surface
bed, beds | das Bett, Betten, Bettes | surface
lamp, lamps | die Lampe, Lampen | thing device
computer, computers | der Computer, Computer, Computers | thing device
radio, radios | das Radio, Radios, Radios | thing device
car, cars | das Auto, Autos, Autos | thing vehicle
bicycle, bicycles | das Fahrrad, Fahrräder, Fahrrads | thing vehicle
hat, hats | der Hut, Hüte, Hutes | thing clothes
shirt, shirts | das Hemd, Hemden, Hemdes | thing clothes
coat, coats | der Mantel, Mäntel, Mantels | thing clothes
jacket, jackets | die Jacke, Jacken | thing clothes
dress, dresses | das Kleid, Kleider, Kleides | thing clothes

house, houses | das Haus, Häuser, Hauses | place room
kitchen, kitchens | die Küche, Küchen | place room
room, rooms | das Zimmer, Zimmer, Zimmers | place room
garden, gardens | der Garten, Gärten, Gartens | place outdoors
park, parks | der Park, Parks, Parks | place outdoors
forest, forests | der Wald, Wälder, Waldes | place outdoors
hotel, hotels | das Hotel, Hotels, Hotels | place building
school, schools | die Schule, Schulen | place building
church, churches | die Kirche, Kirchen | place building
museum, museums | das Museum, Museen, Museums | place building
library, libraries | die Bibliothek, Bibliotheken | place building
hospital, hospitals | das Krankenhaus, Krankenhäuser, Krankenhauses | place building
"""

NAMES = """
Anna | die Anna | name
Maria | die Maria | name
Paul | der Paul | name
Peter | der Peter | name
Berlin | das Berlin | city
Vienna | das Wien | city
Munich | das München | city
Cologne | das Köln | city
"""

# "state": may change from day to day, so that "today" and "if" go with it.
ADJECTIVES = """
old | alt | person animal thing place vehicle
young | jung | person animal
tall | groß | person
big | groß | animal thing place piece
small | klein | person animal thing place piece
happy | glücklich | state person
sad | traurig | state person
tired | müde, müd | state person animal
friendly | freundlich | state person
polite | höflich | state person
rich | reich | person
poor | arm | person
famous | berühmt | person
clever | klug | person animal
hungry | hungrig | state person animal
lazy | faul | person animal
sick | krank | state person animal
new | neu | thing place
beautiful | schön | state animal thing place
expensive | teuer, teur | state thing
cheap | billig | state thing
heavy | schwer | thing surface
red | rot | thing opening surface
green | grün | thing opening surface
white | weiß | animal thing opening surface
black | schwarz | animal thing opening surface
dirty | schmutzig | state thing opening surface room
quiet | ruhig | state place
dark | dunkel, dunkl | room
good | gut | state food drink
fresh | frisch | state food
cold | kalt | state food drink
hot | heiß | state cooked drink
"""

# English | German: infinitive, third person, perfect, and the preterite where that is the usual
# past | subjects | complements: [English preposition:] [German preposition] case classes.
# Two complements are joined by "+", alternatives by "or".
VERBS = """
see, sees, saw | sehen, sieht, hat gesehen | person animal | accusative person animal thing
love, loves, loved | lieben, liebt, hat geliebt | person | accusative person animal
know, knows, knew | kennen, kennt, hat gekannt, kannte | person | accusative person
like, likes, liked | mögen, mag, hat gemocht, mochte | person | accusative person animal food
have, has, had | haben, hat, hat gehabt, hatte | person | accusative animal thing
need, needs, needed | brauchen, braucht, hat gebraucht, brauchte | person | accusative thing surface
buy, buys, bought | kaufen, kauft, hat gekauft | person | accusative food drink thing surface or\
 accusative food drink thing + for: für accusative person
look, looks, looked | suchen, sucht, hat gesucht | person | for: accusative person animal thing
find, finds, found | finden, findet, hat gefunden | person animal | accusative animal thing
forget, forgets, forgot | vergessen, vergisst, hat vergessen | person | accusative thing
eat, eats, ate | essen, isst, hat gegessen | person animal | accusative food
drink, drinks, drank | trinken, trinkt, hat getrunken | person | accusative drink
cook, cooks, cooked | kochen, kocht, hat gekocht | person | accusative cooked or\
 accusative cooked + for: für accusative person
bake, bakes, baked | backen, backt, hat gebacken | person | accusative baked or\
 accusative baked + for: für accusative person
order, orders, ordered | bestellen, bestellt, hat bestellt | person | accusative food drink
read, reads, read | lesen, liest, hat gelesen | person | accusative text
repair, repairs, repaired | reparieren, repariert, hat repariert | person |\
 accusative device vehicle surface
wash, washes, washed | waschen, wäscht, hat gewaschen | person | accusative clothes animal vehicle
wear, wears, wore | tragen, trägt, hat getragen | person | accusative clothes
visit, visits, visited | besuchen, besucht, hat besucht | person | accusative person building
meet, meets, met | treffen, trifft, hat getroffen | person | accusative person
ask, asks, asked | fragen, fragt, hat gefragt | person | accusative person
invite, invites, invited | einladen, lädt ein, hat eingeladen | person | accusative person
pick up, picks up, picked up | abholen, holt ab, hat abgeholt | person | accusative person
call, calls, called | anrufen, ruft an, hat angerufen | person | accusative person
open, opens, opened | aufmachen, macht auf, hat aufgemacht | person | accusative opening
close, closes, closed | zumachen, macht zu, hat zugemacht | person | accusative opening
turn on, turns on, turned on | anmachen, macht an, hat angemacht | person | accusative device
turn off, turns off, turned off | ausmachen, macht aus, hat ausgemacht | person | accusative device
put on, puts on, put on | anziehen, zieht an, hat angezogen | person | accusative clothes
tidy up, tidies up, tidied up | aufräumen, räumt auf, hat aufgeräumt | person | accusative room
throw away, throws away, threw away | wegwerfen, wirft weg, hat weggeworfen | person |\
 accusative thing food
bring along, brings along, brought along | mitbringen, bringt mit, hat mitgebracht | person |\
 accusative food drink gift animal
give, gives, gave | geben, gibt, hat gegeben | person | dative person + accusative gift food drink
show, shows, showed | zeigen, zeigt, hat gezeigt | person | dative person + accusative thing animal
send, sends, sent | schicken, schickt, hat geschickt | person | dative person + accusative gift
lend, lends, lent | leihen, leiht, hat geliehen | person | dative person + accusative vehicle text
put, puts, put | legen, legt, hat gelegt | person |\
 accusative flat + on: auf accusative surface or accusative flat + under: unter accusative surface
lie, lies, lay | liegen, liegt, hat gelegen, lag | flat animal |\
 on: auf dative surface or under: unter dative surface
help, helps, helped | helfen, hilft, hat geholfen | person | dative person
thank, thanks, thanked | danken, dankt, hat gedankt | person | dative person
follow, follows, followed | folgen, folgt, ist gefolgt | person animal | dative person animal
listen, listens, listened | zuhören, hört zu, hat zugehört | person | to: dative person
belong, belongs, belonged | gehören, gehört, hat gehört, gehörte | thing animal | to: dative person
wait, waits, waited | warten, wartet, hat gewartet | person animal | for: auf accusative person
think, thinks, thought | denken, denkt, hat gedacht | person | of: an accusative person animal
talk, talks, talked | sprechen, spricht, hat gesprochen | person |\
 about: über accusative person text or with: mit dative person
dream, dreams, dreamed | träumen, träumt, hat geträumt | person | of: von dative person animal
remember, remembers, remembered | sich erinnern, erinnert sich, hat sich erinnert | person |\
 an accusative person animal
live, lives, lived | wohnen, wohnt, hat gewohnt | person | in: in dative city place
stay, stays, stayed | bleiben, bleibt, ist geblieben | person | in: in dative city place
go, goes, went | gehen, geht, ist gegangen | person | into: in accusative place or\
 to: zu dative building or through: durch accusative outdoors
come, comes, came | kommen, kommt, ist gekommen | person | out of: aus dative place
run, runs, ran | laufen, läuft, ist gelaufen | person animal | into: in accusative outdoors or\
 through: durch accusative outdoors
drive, drives, drove | fahren, fährt, ist gefahren | person | to: nach dative city or\
 to: zu dative building
fly, flies, flew | fliegen, fliegt, ist geflogen | person | to: nach dative city
sleep, sleeps, slept | schlafen, schläft, hat geschlafen | person animal |
work, works, worked | arbeiten, arbeitet, hat gearbeitet | person |
laugh, laughs, laughed | lachen, lacht, hat gelacht | person |
sing, sings, sang | singen, singt, hat gesungen | person |
dance, dances, danced | tanzen, tanzt, hat getanzt | person |
swim, swims, swam | schwimmen, schwimmt, ist geschwommen | person animal |
rest, rests, rested | sich ausruhen, ruht sich aus, hat sich ausgeruht | person animal |
get up, gets up, got up | aufstehen, steht auf, ist aufgestanden | person animal |
wake up, wakes up, woke up | aufwachen, wacht auf, ist aufgewacht | person animal |
arrive, arrives, arrived | ankommen, kommt an, ist angekommen | person |
come back, comes back, came back | zurückkommen, kommt zurück, ist zurückgekommen | person animal |
"""

# The verbs that govern clauses or infinitives; a table of their own, for grammar rules name them.
GOVERNING_VERBS = """
be, is, was | sein, ist, ist gewesen, war | |
say, says, said | sagen, sagt, hat gesagt | person |
know, knows, knew | wissen, weiß, hat gewusst, wusste | person |
hope, hopes, hoped | hoffen, hofft, hat gehofft | person |
believe, believes, believed | glauben, glaubt, hat geglaubt | person |
ask, asks, asked | fragen, fragt, hat gefragt | person |
try, tries, tried | versuchen, versucht, hat versucht | person |
cost, costs, cost | kosten, kostet, hat gekostet | thing |
"""

# English | German: plural, singular.
MODALS = """
can | können, kann
must | müssen, muss
should | sollten, sollte
will | werden, wird
want to, wants to | wollen, will
"""

# English | German | tenses (a modal verb counts as the future). What is repeated is not negated;
# "~" marks what stands before the English verb.
TIMES = """
today | heute | present future
every day | jeden Tag | repeated present past
in the morning | am Morgen | present past future
in the evening | am Abend | present past future
on Monday | am Montag | past future
on Friday | am Freitag | past future
on Sunday | am Sonntag | past future
in summer | im Sommer | present past future
in winter | im Winter | present past future
yesterday | gestern | past
last week | letzte Woche | past
last year | letztes Jahr | past
tomorrow | morgen | future
next week | nächste Woche | future
next year | nächstes Jahr | future
soon | bald | future
often | oft | ~ repeated present past
always | immer | ~ repeated present past
sometimes | manchmal | ~ repeated present past
never | nie | ~ repeated present past
"""

# Where and with whom: English | German preposition and case | classes of the noun. Animals are
# outdoors, people anywhere.
ADJUNCTS = """
in | in dative | outdoors
in | in dative | place
behind | hinter dative | building
in front of | vor dative | building
with | mit dative | person
without | ohne accusative | person
"""
